// Package report describes a running nfsrdmad to its administrator: the documents that the control
// socket serves as JSON and the commands print as text, the metrics for --metrics, and the live page.
//
//	source.go       the daemon's parts that documents describe; collects a Status
//	status.go       a Status with its fields     status_text.go  a Status as text
//	clients.go      clients with opens or locks  exports.go      exported directories
//	held.go         files that clients hold      held_text.go    them as text
//	held_live.go    them on the live page
//	contexts.go     Kerberos                     tls.go          TLS, connection security
//	grants.go       delegation counters          names.go        procedure and error names
//	metriclist.go   all metrics                  collector.go    reads them for a scrape
//	handler.go      HTTP paths for --metrics     conns.go        limits the connections to it
//	history.go      an hour of totals            history_live.go  its curves on the live page
//	history_series.go  the busiest exports' and clients' hour
//	history_json.go  a History as JSON
//	live.go, live.html  the live page            attention.go    what needs attention
//	format.go       sizes, times and names as text
//
// The package only reads the daemon's counters and state. Between two requests only a History stores
// anything, of a bounded size, and its goroutine and a Server's are all that it starts. Package main
// opens sockets, parses flags and changes the daemon.
package report
