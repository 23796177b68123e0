--------------------------- MODULE QuorumInserts ---------------------------
(* Quorum inserts and sequential selects, written for TLC beside src/motet/verify/models/quorum.py, action by  *)
(* action and under the same names, so that both can be timed on one state space. The properties are written   *)
(* so that they are cheap for TLC.                                                                              *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Replicas, QuorumCount, Records, Reads
NONE == -1

VARIABLES length, replica, inFlight, members, failed, lastAdded, history
vars == <<length, replica, inFlight, members, failed, lastAdded, history>>

(* Record i of the log brings data i under id i, so the log is its length; the insert in flight is the last. *)
Init == /\ length = 0
        /\ replica = [r \in Replicas |-> [active |-> TRUE, pointer |-> 0, parts |-> {}]]
        /\ inFlight = FALSE /\ members = {} /\ failed = {} /\ lastAdded = NONE /\ history = <<>>

Said(kind, id) == history' = Append(history, [kind |-> kind, id |-> id])
ReadCount == Len(SelectSeq(history, LAMBDA e : e.kind = "read"))
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Flying == IF inFlight THEN {length - 1} ELSE {}
Visible(r) == replica[r].parts \ (Flying \cup failed)
Ready(r) == replica[r].active /\ replica[r].pointer < length
AtFlight(r) == inFlight /\ replica[r].pointer = length - 1
Alive == \E r \in members : replica[r].active
Fetch(r) == replica' = [replica EXCEPT ![r].parts = @ \cup {replica[r].pointer}, ![r].pointer = @ + 1]

QuorumInsert(r) == /\ ~inFlight /\ length < Records /\ replica[r].active
                   /\ inFlight' = TRUE /\ members' = {r} /\ length' = length + 1
                   /\ replica' = [replica EXCEPT ![r].parts = @ \cup {length}]
                   /\ Said("start", length)
                   /\ UNCHANGED <<failed, lastAdded>>
QuorumReadLin(r) == /\ length > 0 /\ replica[r].active /\ ReadCount < Reads
                    /\ LET seen == Visible(r)
                       IN /\ seen # {}
                          /\ Cardinality(seen) = length - Cardinality(failed) - Cardinality(Flying)
                          /\ Said("read", Max(seen))
                    /\ UNCHANGED <<length, replica, inFlight, members, failed, lastAdded>>
ExecuteLog(r) == /\ Ready(r)
                 /\ IF AtFlight(r) THEN r \in members ELSE replica[r].pointer \notin failed
                 /\ Fetch(r)
                 /\ UNCHANGED <<length, inFlight, members, failed, lastAdded, history>>
UpdateQuorum(r) == /\ Ready(r) /\ AtFlight(r) /\ r \notin members /\ Alive
                   /\ members' = members \cup {r}
                   /\ Fetch(r)
                   /\ UNCHANGED <<length, inFlight, failed, lastAdded, history>>
EndQuorum(r) == /\ inFlight /\ replica[r].active /\ r \in members
                /\ Cardinality(members) >= QuorumCount
                /\ inFlight' = FALSE /\ members' = {} /\ lastAdded' = length - 1
                /\ Said("end", length - 1)
                /\ UNCHANGED <<length, replica, failed>>
FailedQuorum(r) == /\ Ready(r) /\ AtFlight(r) /\ r \notin members /\ ~Alive
                   /\ inFlight' = FALSE /\ members' = {} /\ failed' = failed \cup {length - 1}
                   /\ Said("failed", length - 1)
                   /\ UNCHANGED <<length, replica, lastAdded>>
Switch(r) == /\ replica' = [replica EXCEPT ![r].active = ~@]
             /\ UNCHANGED <<length, inFlight, members, failed, lastAdded, history>>
LegitimateTermination == length = Records /\ ~inFlight /\ ReadCount >= Reads /\ UNCHANGED vars

Next == \/ \E r \in Replicas : \/ QuorumInsert(r) \/ QuorumReadLin(r) \/ ExecuteLog(r) \/ UpdateQuorum(r)
                               \/ EndQuorum(r) \/ FailedQuorum(r) \/ Switch(r)
        \/ LegitimateTermination
Spec == Init /\ [][Next]_vars

QuorumSelect == \A i \in 0..(length - 1) :
    i \in Flying \/ i \in failed \/ Cardinality({r \in Replicas : i \in replica[r].parts}) >= QuorumCount
ReadAfterWrite == \A j \in DOMAIN history : history[j].kind \in {"start", "end"} =>
    \A i \in 1..(j - 1) : history[i].kind # "read" \/ history[i].id # history[j].id
EndOrFailedAfterStartWrite == \A j \in DOMAIN history : history[j].kind \in {"end", "failed"} =>
    \E i \in 1..(j - 1) : history[i].kind = "start" /\ history[i].id = history[j].id
EndOf(id) == CHOOSE k \in DOMAIN history : history[k].kind = "end" /\ history[k].id = id
MonotonicRead == \A j \in DOMAIN history : history[j].kind = "read" =>
    \A i \in 1..(j - 1) : history[i].kind # "read" \/ history[i].id = history[j].id
                          \/ EndOf(history[i].id) < EndOf(history[j].id)
NoStaleRead == \A j \in DOMAIN history : history[j].kind = "read" =>
    \A i \in 1..(j - 1) : history[i].kind # "end" \/ history[i].id <= history[j].id
=============================================================================
