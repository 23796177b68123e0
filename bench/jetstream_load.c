/* A load generator for NATS JetStream: makes a stream of three replicas on file, publishes to it, reads it back.
 *
 *   jetstream_load URL make                         make the stream; print the name of the server that leads it
 *   jetstream_load URL publish IN_FLIGHT SECONDS    publish 1 KiB messages, each acknowledged; print JSON
 *   jetstream_load URL consume COUNT                read COUNT messages in order, touch every byte; print JSON
 *
 * One in flight waits for each acknowledgement; more are pipelined by the library, which blocks at that many.
 */
#include <nats/nats.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STREAM "BENCH"
#define SUBJECT "bench.records"
#define BODY_BYTES 1024
#define LATENCIES_MAX (1 << 20)

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void must(natsStatus status, const char *what) {
    if (status == NATS_OK) return;
    fprintf(stderr, "%s: %s\n", what, natsStatus_GetText(status));
    exit(1);
}

static int by_value(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* The servers need a moment until they have found each other: try again until one of them makes it. */
static void make_stream(jsCtx *jetstream) {
    const char *subjects[] = {SUBJECT};
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Name = STREAM;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Replicas = 3;
    config.Storage = js_FileStorage;
    for (int attempt = 0; attempt < 120; attempt++) {
        jsStreamInfo *info = NULL;
        natsStatus status = attempt == 0 ? NATS_ERR : js_GetStreamInfo(&info, jetstream, STREAM, NULL, NULL);
        if (status == NATS_OK && info->Cluster != NULL && info->Cluster->Leader != NULL) {
            printf("%s\n", info->Cluster->Leader);
            return;
        }
        jsStreamInfo_Destroy(info);
        info = NULL;
        js_AddStream(&info, jetstream, &config, NULL, NULL);
        jsStreamInfo_Destroy(info);
        usleep(500 * 1000);
    }
    fprintf(stderr, "the stream has no leader\n");
    exit(1);
}

static void publish_one_by_one(jsCtx *jetstream, const char *body, double seconds) {
    double *latencies = malloc(sizeof(double) * LATENCIES_MAX);
    long count = 0;
    double begin = now() + 1.0, end = begin + seconds;
    for (double sent = now(); sent < end; sent = now()) {
        must(js_Publish(NULL, jetstream, SUBJECT, body, BODY_BYTES, NULL, NULL), "publish");
        double answered = now();
        if (sent >= begin && answered <= end && count < LATENCIES_MAX) latencies[count++] = answered - sent;
    }
    qsort(latencies, (size_t)count, sizeof(double), by_value);
    printf("{\"rate\": %.1f, \"p50_ms\": %.4f, \"count\": %ld}\n", (double)count / seconds,
           count ? latencies[count / 2] * 1e3 : 0.0, count);
}

static void publish_many(jsCtx *jetstream, const char *body, double seconds) {
    long count = 0;
    double begin = now(), end = begin + seconds;
    while (now() < end)
        for (int i = 0; i < 16; i++, count++)
            must(js_PublishAsync(jetstream, SUBJECT, body, BODY_BYTES, NULL), "publish");
    must(js_PublishAsyncComplete(jetstream, NULL), "the last acknowledgements");
    natsMsgList unacknowledged = {0};
    if (js_PublishAsyncGetPendingList(&unacknowledged, jetstream) == NATS_OK && unacknowledged.Count > 0) {
        fprintf(stderr, "%d were not acknowledged\n", unacknowledged.Count);
        exit(1);
    }
    printf("{\"rate\": %.1f, \"p50_ms\": 0, \"count\": %ld}\n", (double)count / (now() - begin), count);
}

static long wanted, received;
static uint64_t touched;
static double last_at;

static void on_message(natsConnection *connection, natsSubscription *subscription, natsMsg *message, void *closure) {
    (void)connection, (void)subscription, (void)closure;
    const unsigned char *data = (const unsigned char *)natsMsg_GetData(message);
    for (int i = 0; i < natsMsg_GetDataLength(message); i++) touched += data[i];
    natsMsg_Destroy(message);
    if (received < wanted) {
        received++;
        last_at = now();
    }
}

static void consume(jsCtx *jetstream, long count) {
    natsSubscription *subscription = NULL;
    jsSubOptions options;
    jsSubOptions_Init(&options);
    options.Stream = STREAM;
    options.Ordered = true;
    wanted = count;
    double begin = now();
    must(js_Subscribe(&subscription, jetstream, SUBJECT, on_message, NULL, NULL, &options, NULL), "subscribe");
    natsSubscription_SetPendingLimits(subscription, -1, -1);
    while (__atomic_load_n(&received, __ATOMIC_RELAXED) < count && now() - begin < 100) usleep(1000);
    printf("{\"rate\": %.1f, \"count\": %ld, \"sum\": %llu}\n", (double)received / (last_at - begin), received,
           (unsigned long long)touched);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    int in_flight = count > 3 && strcmp(words[2], "publish") == 0 ? atoi(words[3]) : 1;
    natsConnection *connection = NULL;
    jsCtx *jetstream = NULL;
    jsOptions options;
    jsOptions_Init(&options);
    options.Wait = 30000;
    options.PublishAsync.MaxPending = in_flight;
    options.PublishAsync.StallWait = 30000; /* how long a publish may block while that many are under way */
    must(natsConnection_ConnectTo(&connection, words[1]), "connect");
    must(natsConnection_JetStream(&jetstream, connection, &options), "jetstream");
    char body[BODY_BYTES];
    for (int i = 0; i < BODY_BYTES; i++) body[i] = (char)i;
    if (strcmp(words[2], "make") == 0) make_stream(jetstream);
    else if (strcmp(words[2], "consume") == 0) consume(jetstream, atol(words[3]));
    else if (in_flight == 1) publish_one_by_one(jetstream, body, atof(words[4]));
    else publish_many(jetstream, body, atof(words[4]));
    fflush(stdout);
    _exit(0);
}
