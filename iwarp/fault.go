package iwarp

import (
	"bytes"
	"fmt"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Fault is an error of the stream that one end reported to the other by a
// Terminate message (RFC 5040, Section 4.8). It ends the connection.
type Fault struct {
	Remote    bool // the peer found it
	Terminate rdmap.Terminate

	lacks bool // the peer does not know a message of RFC 7306
}

// Error describes the Terminate in words.
func (f *Fault) Error() string {
	switch {
	case f.lacks:
		return fmt.Sprintf("iwarp: the peer terminated, for it lacks atomic operations or immediate data: %v", f.Terminate)
	case f.Remote:
		return fmt.Sprintf("iwarp: the peer terminated: %v", f.Terminate)
	}
	return fmt.Sprintf("iwarp: terminated the connection: %v", f.Terminate)
}

// Unwrap returns the error number. For errors.Is the number also equals the
// number of DDP or MPA.
func (f *Fault) Unwrap() error { return f.Terminate.Cause }

// Is makes f an rdma.ErrUnsupportedOp if the peer lacks RFC 7306.
func (f *Fault) Is(target error) bool { return f.lacks && target == rdma.ErrUnsupportedOp }

// localFault returns the fault for an error that no DDP segment caused.
func localFault(err error) *Fault {
	return &Fault{Terminate: rdmap.NewTerminate(rdmap.ErrorOf(err), nil, 0)}
}

// remoteFault returns the fault that the peer's Terminate reports. The peer
// lacks RFC 7306 if the error is an unexpected opcode and this end has sent a
// message of RFC 7306, unless the Terminate names an opcode outside RFC 7306.
// siw's form without a header can also be read as an error of the start-up, but
// the start-up is over.
func (c *Conn) remoteFault(t rdmap.Terminate) *Fault {
	f := &Fault{Remote: true, Terminate: t}
	f.Terminate.DDPHeader = bytes.Clone(t.DDPHeader) // the message's memory is reused soon
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
	c.rnic.terminates.received.add(f.Terminate.Cause)
	return f
}

// fault returns the fault for an error of the segment. It includes the
// segment's headers.
func (s *segment) fault(err error) *Fault {
	headers := bytes.Clone(s.copied[:s.size+s.rdmap])
	return &Fault{Terminate: rdmap.NewTerminate(rdmap.ErrorOf(err), headers, s.n)}
}

// fault returns the fault for an error of the Read, after sent bytes of the
// response have gone to the peer.
func (r *askedRead) fault(cause rdmap.Error, sent uint32) *Fault {
	request := r.Advance(sent).AppendTo(r.header[:len(r.header):len(r.header)])
	return &Fault{Terminate: rdmap.NewTerminate(cause, request, len(request))}
}

// As makes f an rdma.AccessError if the peer's Terminate names the memory of
// the peer that an RDMA Write or Read of this end could not reach (RFC 5040,
// Section 4.8; RFC 5041, Section 7.1).
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
