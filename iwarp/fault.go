package iwarp

import (
	"bytes"
	"fmt"

	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
)

// A Fault is an error of the stream that one end told the other by a Terminate
// message (RFC 5040, Section 4.8). It ends the connection.
type Fault struct {
	Remote    bool // the peer found it
	Terminate rdmap.Terminate
}

// Error says in words what the Terminate says.
func (f *Fault) Error() string {
	if f.Remote {
		return fmt.Sprintf("iwarp: the peer terminated: %v", f.Terminate)
	}
	return fmt.Sprintf("iwarp: terminated the connection: %v", f.Terminate)
}

// Unwrap returns the number, which is also that of DDP or MPA for errors.Is.
func (f *Fault) Unwrap() error { return f.Terminate.Cause }

// localFault is an error that no DDP segment is to blame for.
func localFault(err error) *Fault {
	return &Fault{Terminate: rdmap.NewTerminate(rdmap.ErrorOf(err), nil, 0)}
}

// remoteFault is what the peer's Terminate says.
func remoteFault(t rdmap.Terminate) *Fault {
	return &Fault{Remote: true, Terminate: t}
}

// fault is an error of the segment, whose headers go with it.
func (s *segment) fault(err error) *Fault {
	headers := bytes.Clone(s.copied[:s.size+s.rdmap])
	return &Fault{Terminate: rdmap.NewTerminate(rdmap.ErrorOf(err), headers, s.n)}
}
