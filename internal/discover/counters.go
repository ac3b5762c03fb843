package discover

import (
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Counters are a server's totals since its start: the content of one update. The
// RDMA WRITE that carries an update has the sequence number as immediate data.
type Counters struct {
	Boot     uint64
	Sequence uint32 // the update's number in its stream; gaps are lost updates
	Draining bool
	Uptime   time.Duration // in whole microseconds

	Transports []Transport
	Procs      []Proc // procedures called so far
}

// A Transport has the totals of one transport.
type Transport struct {
	Name        string
	Connections uint32 // current connections
	UnderWay    uint32 // calls in flight: without a reply yet
	Accepted    uint64 // connections so far
	Refused     uint64
	In, Out     uint64 // bytes on the current connections
}

// A Proc has the totals of one procedure of a program.
type Proc struct {
	Program, Name string
	Calls, Errors uint64
	In, Out       uint64        // bytes of calls and replies, data included
	Took          time.Duration // total time
}

// countersMagic and countersVersion begin each block.
const (
	countersMagic   = 0x4e465363 // "NFSc"
	countersVersion = 1
	maxWord         = 24 // maximum length of a name in the block, in bytes
)

// AppendTo appends the wire form, in XDR. It omits entries above the limits.
func (c *Counters) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, countersMagic)
	b = xdr.AppendUint32(b, countersVersion)
	b = xdr.AppendUint64(b, c.Boot)
	b = xdr.AppendUint32(b, c.Sequence)
	b = xdr.AppendBool(b, c.Draining)
	b = xdr.AppendUint64(b, uint64(c.Uptime/time.Microsecond))
	transports := c.Transports[:min(len(c.Transports), maxTransports)]
	b = xdr.AppendUint32(b, uint32(len(transports)))
	for i := range transports {
		t := &transports[i]
		b = xdr.AppendString(b, t.Name[:min(len(t.Name), maxWord)])
		b = xdr.AppendUint32(b, t.Connections)
		b = xdr.AppendUint32(b, t.UnderWay)
		b = xdr.AppendUint64(b, t.Accepted)
		b = xdr.AppendUint64(b, t.Refused)
		b = xdr.AppendUint64(b, t.In)
		b = xdr.AppendUint64(b, t.Out)
	}
	procs := c.Procs[:min(len(c.Procs), maxProcs)]
	b = xdr.AppendUint32(b, uint32(len(procs)))
	for i := range procs {
		p := &procs[i]
		b = xdr.AppendString(b, p.Program[:min(len(p.Program), maxWord)])
		b = xdr.AppendString(b, p.Name[:min(len(p.Name), maxWord)])
		b = xdr.AppendUint64(b, p.Calls)
		b = xdr.AppendUint64(b, p.Errors)
		b = xdr.AppendUint64(b, p.In)
		b = xdr.AppendUint64(b, p.Out)
		b = xdr.AppendUint64(b, uint64(p.Took/time.Microsecond))
	}
	return b
}

// parseCounters parses a block, which is all of b.
func parseCounters(b []byte) (*Counters, error) {
	r := xdr.NewReader(b)
	m, v := r.Uint32(), r.Uint32()
	switch {
	case r.Err() != nil || m != countersMagic:
		return nil, errForm
	case v != countersVersion:
		return nil, errVersion
	}
	c := &Counters{Boot: r.Uint64(), Sequence: r.Uint32(), Draining: r.Bool(), Uptime: readMicroseconds(&r)}
	for range readCount(&r, maxTransports) {
		c.Transports = append(c.Transports, Transport{
			Name: r.String(maxWord), Connections: r.Uint32(), UnderWay: r.Uint32(),
			Accepted: r.Uint64(), Refused: r.Uint64(), In: r.Uint64(), Out: r.Uint64(),
		})
	}
	for range readCount(&r, maxProcs) {
		c.Procs = append(c.Procs, Proc{
			Program: r.String(maxWord), Name: r.String(maxWord), Calls: r.Uint64(), Errors: r.Uint64(),
			In: r.Uint64(), Out: r.Uint64(), Took: readMicroseconds(&r),
		})
	}
	return c, bodyError(&r)
}

func readCount(r *xdr.Reader, most uint32) uint32 {
	n := r.Uint32()
	if n > most {
		r.Fail(xdr.ErrLong)
	}
	if r.Err() != nil {
		return 0
	}
	return n
}

// readMicroseconds reads a time, limited to the maximum Duration.
func readMicroseconds(r *xdr.Reader) time.Duration {
	return time.Duration(min(r.Uint64(), uint64(1<<63-1)/uint64(time.Microsecond))) * time.Microsecond
}
