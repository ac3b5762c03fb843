// Package loadgen repeats one kind of NFS call on some connections, and measures
// throughput and latency. It must not depend on how the connections are made, nor
// on a command's flags and output.
package loadgen
