// Package loadgen repeats one kind of NFS call on some connections, and
// measures throughput and latency. It must not know how the connections are
// made, nor flags and output of a command.
package loadgen
