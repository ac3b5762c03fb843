package iwarp

import (
	"bytes"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// A Fault is a stream error that one end reported to the other by a Terminate
// message (RFC 5040, Section 4.8). It terminates the connection.
type Fault struct {
	Remote    bool // detected by the peer
	Terminate rdmap.Terminate

	unsupported bool // the peer does not implement an RFC 7306 message
}

// Error describes the Terminate.
func (f *Fault) Error() string {
	switch {
	case f.unsupported:
		return fmt.Sprintf("iwarp: the peer terminated the connection; it does not support atomic operations or immediate data: %v", f.Terminate)
	case f.Remote:
		return fmt.Sprintf("iwarp: the peer terminated the connection: %v", f.Terminate)
	}
	return fmt.Sprintf("iwarp: terminated the connection: %v", f.Terminate)
}

// Unwrap returns the error number. For errors.Is it also equals the
// corresponding DDP or MPA error.
func (f *Fault) Unwrap() error { return f.Terminate.Cause }

// Is makes f an rdma.ErrUnsupportedOp if the peer does not support RFC 7306.
func (f *Fault) Is(target error) bool { return f.unsupported && target == rdma.ErrUnsupportedOp }

// localFault returns the fault for an error that no DDP segment caused.
func localFault(err error) *Fault {
	return &Fault{Terminate: rdmap.NewTerminate(rdmap.ErrorOf(err), nil, 0)}
}

// remoteFault returns the fault that the peer's Terminate reports. The peer
// does not support RFC 7306 if the error is an unexpected opcode and this end
// has sent an RFC 7306 message, unless the Terminate names an opcode outside
// RFC 7306. siw's form without a header is also a valid start-up error, but the
// start-up is complete.
func (c *Conn) remoteFault(t rdmap.Terminate) *Fault {
	f := &Fault{Remote: true, Terminate: t}
	f.Terminate.DDPHeader = bytes.Clone(t.DDPHeader) // the message's memory is reused soon
	f.Terminate.RDMAPHeader = bytes.Clone(t.RDMAPHeader)
	op, hasOpcode := t.Opcode()
	switch {
	case !c.tx.hasExtended(), hasOpcode && !op.Extension():
	case t.Cause == rdmap.ErrOpcode:
		f.unsupported = true
	case t.Layout == rdmap.LayoutEither && t.SiwCause() == rdmap.ErrOpcode:
		f.unsupported = true
		f.Terminate.Cause, f.Terminate.Layout = t.SiwCause(), rdmap.LayoutSiw
	}
	c.rnic.terminates.received.countCause(f.Terminate.Cause)
	return f
}

// newFault returns the fault for an error in the segment. It includes the
// segment's headers.
func (s *segment) newFault(err error) *Fault {
	headers := bytes.Clone(s.headers[:s.headerLen+s.rdmapLen])
	return &Fault{Terminate: rdmap.NewTerminate(rdmap.ErrorOf(err), headers, s.ulpduLen)}
}

// newFault returns the fault for an error in the Read, when sent bytes of the
// response have already been sent.
func (r *inboundRead) newFault(cause rdmap.Error, sent uint32) *Fault {
	request := r.Advance(sent).AppendTo(r.header[:len(r.header):len(r.header)])
	return &Fault{Terminate: rdmap.NewTerminate(cause, request, len(request))}
}

// As makes f an rdma.AccessError if the peer's Terminate names memory at the
// peer that a local RDMA Write or Read could not access (RFC 5040, Section 4.8;
// RFC 5041, Section 7.1).
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
