/* A load generator for anything that speaks ZooKeeper's protocol: one connection, so many requests in flight.
 *
 *   zookeeper_load PORT set|get IN_FLIGHT SECONDS CLIENT NODES
 *
 * It makes the nodes /bench-CLIENT-0 … with 256 bytes each, and then sets or gets them in turn for one second
 * that does not count and SECONDS that do. Each request is answered on its own; an answer with an error ends
 * the run. After sets the last value of each node is read back and compared. One line of JSON is the result.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CREATE = 1, GET_DATA = 4, SET_DATA = 5, VALUE_BYTES = 256, WINDOW_MAX = 4096 };

static int sock;
static unsigned char out[1 << 20], in[1 << 20];
static size_t out_bytes, in_bytes, in_taken;

static void fail(const char *what) {
  fprintf(stderr, "zookeeper_load: %s (%s)\n", what, errno ? strerror(errno) : "protocol");
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void put_int(uint32_t value) {
  uint32_t swapped = htonl(value);
  memcpy(out + out_bytes, &swapped, 4);
  out_bytes += 4;
}

static void put_bytes(const void *bytes, size_t count) {
  put_int((uint32_t)count);
  memcpy(out + out_bytes, bytes, count);
  out_bytes += count;
}

static size_t begin_frame(void) {
  put_int(0);
  return out_bytes;
}

static void end_frame(size_t start) {
  uint32_t swapped = htonl((uint32_t)(out_bytes - start));
  memcpy(out + start - 4, &swapped, 4);
}

static void flush_out(void) {
  size_t done = 0;
  while (done < out_bytes) {
    ssize_t sent = send(sock, out + done, out_bytes - done, 0);
    if (sent < 0) fail("cannot send");
    done += (size_t)sent;
  }
  out_bytes = 0;
}

/* The next answer, or NULL if it is not here yet and nobody wants to wait. */
static const unsigned char *next_frame(uint32_t *size, int wait) {
  for (;;) {
    if (in_bytes - in_taken >= 4) {
      uint32_t length;
      memcpy(&length, in + in_taken, 4);
      length = ntohl(length);
      if (length > sizeof in - 4) fail("an answer is too long");
      if (in_bytes - in_taken >= 4 + (size_t)length) {
        const unsigned char *frame = in + in_taken + 4;
        in_taken += 4 + (size_t)length;
        *size = length;
        return frame;
      }
    }
    if (!wait) return NULL;
    memmove(in, in + in_taken, in_bytes - in_taken);
    in_bytes -= in_taken;
    in_taken = 0;
    ssize_t got = recv(sock, in + in_bytes, sizeof in - in_bytes, 0);
    if (got <= 0) fail("the connection is lost");
    in_bytes += (size_t)got;
  }
}

static int32_t get_int(const unsigned char *at) {
  uint32_t value;
  memcpy(&value, at, 4);
  return (int32_t)ntohl(value);
}

static void path_of(char *path, const char *client, int node) {
  snprintf(path, 64, "/bench-%s-%d", client, node);
}

static void value_of(char *value, long number) {
  memset(value, 'v', VALUE_BYTES);
  value[snprintf(value, 32, "%ld", number)] = ' ';
}

static void ask(int32_t xid, int opcode, const char *path, const char *value) {
  size_t start = begin_frame();
  put_int((uint32_t)xid);
  put_int((uint32_t)opcode);
  put_bytes(path, strlen(path));
  if (opcode == GET_DATA) {
    out[out_bytes++] = 0;
  } else {
    put_bytes(value, VALUE_BYTES);
    if (opcode == CREATE) {
      put_int(1), put_int(31), put_bytes("world", 5), put_bytes("anyone", 6), put_int(0);
    } else {
      put_int((uint32_t)-1);
    }
  }
  end_frame(start);
}

static int compare(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void dial(int port) {
  struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int one = 1;
  uint32_t size;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sock = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(sock, (struct sockaddr *)&where, sizeof where)) fail("cannot connect");
  setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  size_t start = begin_frame();
  char password[16] = {0};
  put_int(0), put_int(0), put_int(0), put_int(30000), put_int(0), put_int(0);
  put_bytes(password, 16);
  end_frame(start);
  flush_out();
  if (get_int(next_frame(&size, 1) + 4) <= 0) fail("no session");
}

int main(int count, char **arguments) {
  if (count != 7) fail("PORT set|get IN_FLIGHT SECONDS CLIENT NODES");
  int opcode = strcmp(arguments[2], "get") ? SET_DATA : GET_DATA;
  int window = atoi(arguments[3]), nodes = atoi(arguments[6]);
  double seconds = atof(arguments[4]);
  const char *client = arguments[5];
  if (window < 1 || window > WINDOW_MAX || nodes < 1) fail("a number is out of bounds");
  char path[64], value[VALUE_BYTES];
  uint32_t size;
  dial(atoi(arguments[1]));
  for (int node = 0; node < nodes; node++) {
    path_of(path, client, node);
    value_of(value, -1);
    ask(1, CREATE, path, value);
    flush_out();
    int error = get_int(next_frame(&size, 1) + 12);
    if (error && error != -110) fail("cannot create");
  }
  size_t latencies_max = 1 << 24, measured = 0;
  float *latencies = malloc(latencies_max * sizeof *latencies);
  double *sent_at = malloc(WINDOW_MAX * sizeof *sent_at);
  long *last = malloc((size_t)nodes * sizeof *last);
  for (int node = 0; node < nodes; node++) last[node] = -1;
  long sent = 0, answered = 0;
  double begin = now() + 1, end = begin + seconds;
  int is_over = 0;
  while (!is_over || answered < sent) {
    double time = now();
    is_over = time >= end;
    while (!is_over && sent - answered < window) {
      int node = (int)(sent % nodes);
      path_of(path, client, node);
      value_of(value, sent);
      sent_at[sent % WINDOW_MAX] = time;
      last[node] = sent;
      ask((int32_t)(sent & 0x7fffffff), opcode, path, value);
      sent++;
      if (out_bytes > sizeof out - 1024) flush_out();
    }
    if (out_bytes) flush_out();
    for (int wait = 1; answered < sent; wait = 0) {
      const unsigned char *frame = next_frame(&size, wait);
      if (!frame) break;
      if (get_int(frame + 12)) fail("an answer says error");
      double began = sent_at[answered % WINDOW_MAX], done = now();
      if (began >= begin && done <= end && measured < latencies_max)
        latencies[measured++] = (float)(1e6 * (done - began));
      answered++;
    }
  }
  for (int node = 0; opcode == SET_DATA && node < nodes && last[node] >= 0; node++) {
    path_of(path, client, node);
    value_of(value, last[node]);
    ask(2, GET_DATA, path, NULL);
    flush_out();
    const unsigned char *frame = next_frame(&size, 1);
    if (get_int(frame + 12) || memcmp(frame + 20, value, VALUE_BYTES)) fail("an acknowledged value is not there");
  }
  qsort(latencies, measured, sizeof *latencies, compare);
  printf("{\"rate\": %.0f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}\n", (double)measured / seconds,
         measured ? latencies[measured / 2] / 1e3 : 0.0, measured ? latencies[measured * 99 / 100] / 1e3 : 0.0);
  return 0;
}
