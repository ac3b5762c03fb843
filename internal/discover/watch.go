package discover

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Watch starts or renews a stream of the server's counters. The monitor's
// address and queue pair identify the stream.
type Watch struct {
	QP       uint32        // the monitor's, of UC
	PMTU     uint32        // the monitor's largest, in bytes
	Sink     rdma.Remote   // its memory
	Room     uint32        // length of the memory in bytes
	Interval time.Duration // between updates, in whole milliseconds; 0 ends the stream
}

// Watching describes the stream.
type Watching struct {
	QP       uint32        // the server's, of UC
	PSN      uint32        // of the server's first packet
	PMTU     uint32        // of both ends
	Interval time.Duration // between updates, in whole milliseconds
	Lease    time.Duration // the stream ends after that without renewal; in milliseconds
}

// AppendTo appends the wire form.
func (m Watch) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, m.QP)
	b = xdr.AppendUint32(b, m.PMTU)
	b = xdr.AppendUint32(b, uint32(m.Sink.STag))
	b = xdr.AppendUint64(b, m.Sink.TO)
	b = xdr.AppendUint32(b, m.Room)
	return appendTime(b, m.Interval)
}

func parseWatch(r *xdr.Reader) (m Watch, err error) {
	m.QP, m.PMTU = r.Uint32(), r.Uint32()
	m.Sink = rdma.Remote{STag: rdma.STag(r.Uint32()), TO: r.Uint64()}
	m.Room, m.Interval = r.Uint32(), parseTime(r)
	return m, bodyError(r)
}

// AppendTo appends the wire form.
func (m Watching) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, m.QP)
	b = xdr.AppendUint32(b, m.PSN)
	b = xdr.AppendUint32(b, m.PMTU)
	b = appendTime(b, m.Interval)
	return appendTime(b, m.Lease)
}

func parseWatching(r *xdr.Reader) (m Watching, err error) {
	m.QP, m.PSN, m.PMTU = r.Uint32(), r.Uint32(), r.Uint32()
	m.Interval, m.Lease = parseTime(r), parseTime(r)
	return m, bodyError(r)
}

func appendTime(b []byte, d time.Duration) []byte {
	return xdr.AppendUint32(b, uint32(d/time.Millisecond))
}

func parseTime(r *xdr.Reader) time.Duration { return time.Duration(r.Uint32()) * time.Millisecond }
