package iwarp

import (
	"bytes"
	"fmt"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Fault is an error of the stream that one end told the other by a Terminate
// message (RFC 5040, Section 4.8). It ends the connection.
type Fault struct {
	Remote    bool // the peer found it
	Terminate rdmap.Terminate

	lacks bool // the peer does not know a message of RFC 7306
}

// Error says in words what the Terminate says.
func (f *Fault) Error() string {
	switch {
	case f.lacks:
		return fmt.Sprintf("iwarp: the peer terminated, for it lacks atomic operations or immediate data: %v", f.Terminate)
	case f.Remote:
		return fmt.Sprintf("iwarp: the peer terminated: %v", f.Terminate)
	}
	return fmt.Sprintf("iwarp: terminated the connection: %v", f.Terminate)
}

// Unwrap returns the number, which is also that of DDP or MPA for errors.Is.
func (f *Fault) Unwrap() error { return f.Terminate.Cause }

// Is makes f an rdma.ErrUnsupportedOp where the peer lacks RFC 7306.
func (f *Fault) Is(target error) bool { return f.lacks && target == rdma.ErrUnsupportedOp }

// localFault is an error that no DDP segment is to blame for.
func localFault(err error) *Fault {
	return &Fault{Terminate: rdmap.NewTerminate(rdmap.ErrorOf(err), nil, 0)}
}

// remoteFault is what the peer's Terminate says. Where it is an unexpected
// opcode and the opcode is one of RFC 7306's, or is not told but this end has
// sent such a one, the peer lacks it. siw's form without a header can also be
// read as an error of the start-up; but that is over.
func (c *Conn) remoteFault(t rdmap.Terminate) *Fault {
	f := &Fault{Remote: true, Terminate: t}
	f.Terminate.DDPHeader = bytes.Clone(t.DDPHeader) // the message's memory is lent to others soon
	f.Terminate.RDMAPHeader = bytes.Clone(t.RDMAPHeader)
	op, told := t.Opcode()
	switch {
	case !c.tx.hasExtended(), told && !op.Extension():
	case t.Cause == rdmap.ErrOpcode:
		f.lacks = true
	case t.Layout == rdmap.LayoutEither && t.SiwCause() == rdmap.ErrOpcode:
		f.lacks = true
		f.Terminate.Cause, f.Terminate.Layout = t.SiwCause(), rdmap.LayoutSiw
	}
	rnic.terminates.received.add(f.Terminate.Cause)
	return f
}

// fault is an error of the segment, whose headers go with it.
func (s *segment) fault(err error) *Fault {
	headers := bytes.Clone(s.copied[:s.size+s.rdmap])
	return &Fault{Terminate: rdmap.NewTerminate(rdmap.ErrorOf(err), headers, s.n)}
}

// fault is an error of the Read, of which sent octets have gone to the peer.
func (r *askedRead) fault(cause rdmap.Error, sent uint32) *Fault {
	request := r.Advance(sent).AppendTo(r.header[:len(r.header):len(r.header)])
	return &Fault{Terminate: rdmap.NewTerminate(cause, request, len(request))}
}

// As makes f an rdma.AccessError where the peer's Terminate tells which of its
// memory an RDMA Write or Read of this end could not reach (RFC 5040, Section
// 4.8; RFC 5041, Section 7.1).
func (f *Fault) As(target any) bool {
	e, ok := target.(*rdma.AccessError)
	if !ok || !f.Remote {
		return false
	}
	if h := f.Terminate.RDMAPHeader; h != nil {
		request, err := rdmap.ParseReadRequest(h)
		e.STag = request.SourceSTag
		return err == nil && f.Terminate.Cause.Type == rdmap.TypeProtection
	}
	h := f.Terminate.DDPHeader
	if len(h) == 0 || !ddp.IsTagged(h[0]) {
		return false
	}
	write, _, err := ddp.ParseTagged(h)
	e.STag = write.STag
	return err == nil
}
