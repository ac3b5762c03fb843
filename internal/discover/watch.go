package discover

import (
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A watchBody starts or renews a stream of the server's counters. The monitor's
// address and queue pair identify the stream.
type watchBody struct {
	QP        uint32        // the monitor's UC queue pair
	PMTU      uint32        // the monitor's maximum, in bytes
	Sink      rdma.Remote   // its memory
	MemoryLen uint32        // length of the memory in bytes
	Interval  time.Duration // between updates, in whole milliseconds; 0 ends the stream
}

// watchingBody describes the stream.
type watchingBody struct {
	QP       uint32        // the server's UC queue pair
	PSN      uint32        // PSN of the server's first packet
	PMTU     uint32        // path MTU for both ends
	Interval time.Duration // between updates, in whole milliseconds
	Lease    time.Duration // the stream ends after that without renewal; in milliseconds
}

// AppendTo appends the wire form.
func (m watchBody) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, m.QP)
	b = xdr.AppendUint32(b, m.PMTU)
	b = xdr.AppendUint32(b, uint32(m.Sink.STag))
	b = xdr.AppendUint64(b, m.Sink.TO)
	b = xdr.AppendUint32(b, m.MemoryLen)
	return appendTime(b, m.Interval)
}

func parseWatch(r *xdr.Reader) (m watchBody, err error) {
	m.QP, m.PMTU = r.Uint32(), r.Uint32()
	m.Sink = rdma.Remote{STag: rdma.STag(r.Uint32()), TO: r.Uint64()}
	m.MemoryLen, m.Interval = r.Uint32(), parseTime(r)
	return m, bodyError(r)
}

// AppendTo appends the wire form.
func (m watchingBody) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, m.QP)
	b = xdr.AppendUint32(b, m.PSN)
	b = xdr.AppendUint32(b, m.PMTU)
	b = appendTime(b, m.Interval)
	return appendTime(b, m.Lease)
}

func parseWatching(r *xdr.Reader) (m watchingBody, err error) {
	m.QP, m.PSN, m.PMTU = r.Uint32(), r.Uint32(), r.Uint32()
	m.Interval, m.Lease = parseTime(r), parseTime(r)
	return m, bodyError(r)
}

func appendTime(b []byte, d time.Duration) []byte {
	return xdr.AppendUint32(b, uint32(d/time.Millisecond))
}

func parseTime(r *xdr.Reader) time.Duration { return time.Duration(r.Uint32()) * time.Millisecond }
