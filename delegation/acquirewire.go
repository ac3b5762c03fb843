package delegation

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// The RPC program, served only on connections with delegation counters.
const (
	Program = 0x20667278
	Version = 1

	ProcNull    = 0
	ProcAcquire = 1

	NumProc = 2
)

// ProcName returns a procedure's name.
func ProcName(proc uint32) string {
	switch proc {
	case ProcNull:
		return "NULL"
	case ProcAcquire:
		return "ACQUIRE"
	}
	return fmt.Sprintf("procedure %d", proc)
}

// Types is the set of object properties that may be served from a cache.
type Types uint32

// The types, which may be combined. Other bits are not granted.
const (
	FileData       Types = 1 << iota // a regular file's data
	FileAttributes                   // a file's attributes
	Directory                        // a directory's names and attributes

	allTypes = FileData | FileAttributes | Directory
)

// A Status is the result of an ACQUIRE. Values other than StatusRefused are
// nfsstat3 values (RFC 1813, Section 2.6).
type Status uint32

// Results of an ACQUIRE. Servers may use other, more precise nfsstat3 values.
const (
	StatusOK          Status = 0
	StatusIO          Status = 5     // NFS3ERR_IO
	StatusAcces       Status = 13    // NFS3ERR_ACCES
	StatusStale       Status = 70    // NFS3ERR_STALE
	StatusBadHandle   Status = 10001 // NFS3ERR_BADHANDLE
	StatusServerFault Status = 10006 // NFS3ERR_SERVERFAULT
	StatusRefused     Status = 20000 // the object is valid, but not granted: see the Reason
)

// A Reason says why nothing was granted. Clients treat all unknown reasons
// alike.
type Reason uint32

// The reasons why an ACQUIRE is refused. Zero means none.
const (
	ReasonContended Reason = 1 // the object is being changed: try again later
	ReasonTypes     Reason = 2 // no requested type is available for this object
	ReasonLimit     Reason = 3 // no slot is free, or clients from before a restart may hold grants: try again later
	ReasonLate      Reason = 4 // the connection missed a deadline
	ReasonHeld      Reason = 5 // the connection holds a grant, which is recalled: try again
	ReasonOver      Reason = 6 // the connection is closing
)

// String returns the reason's name.
func (r Reason) String() string {
	switch r {
	case ReasonContended:
		return "contended"
	case ReasonTypes:
		return "types"
	case ReasonLimit:
		return "limit"
	case ReasonLate:
		return "late"
	case ReasonHeld:
		return "held"
	case ReasonOver:
		return "over"
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

// AcquireArgs are ACQUIRE's arguments.
type AcquireArgs struct {
	Handle []byte // nfs_fh3 (RFC 1813): up to MaxHandle bytes
	Types  Types  // requested
}

// AppendTo appends the wire form of a to b.
func (a *AcquireArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendOpaque(b, a.Handle), uint32(a.Types))
}

// Decode reads a from r. Handle aliases r's input.
func (a *AcquireArgs) Decode(r *xdr.Reader) {
	a.Handle, a.Types = r.Opaque(MaxHandle), Types(r.Uint32())
}

// MaxAcquireRes is the maximum length of ACQUIRE's results in bytes.
const MaxAcquireRes = 5*4 + AttrLen

// AcquireRes are ACQUIRE's results.
type AcquireRes struct {
	Status Status

	// If Status is StatusOK.
	Slot       uint32 // 1 to maxSlots-1
	Generation uint32
	Types      Types  // granted: at least one
	LeaseMS    uint32 // lease time in milliseconds
	Attr       []byte // fattr3 at the time when the grant was made, AttrLen bytes

	// If Status is StatusRefused.
	Reason Reason
}

// AppendTo appends the wire form of s to b. Attr must be AttrLen bytes long.
func (s *AcquireRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	switch s.Status {
	case StatusOK:
		for _, v := range [...]uint32{s.Slot, s.Generation, uint32(s.Types), s.LeaseMS} {
			b = xdr.AppendUint32(b, v)
		}
		b = xdr.AppendFixed(b, s.Attr[:AttrLen])
	case StatusRefused:
		b = xdr.AppendUint32(b, uint32(s.Reason))
	}
	return b
}

// Decode reads s from r. Attr aliases r's input. A grant that no client can use
// is an error.
func (s *AcquireRes) Decode(r *xdr.Reader) {
	*s = AcquireRes{Status: Status(r.Uint32())}
	switch s.Status {
	case StatusOK:
		s.Slot, s.Generation, s.Types, s.LeaseMS = r.Uint32(), r.Uint32(), Types(r.Uint32()), r.Uint32()
		s.Attr = r.Fixed(AttrLen)
		if s.Slot == LeaseWord || s.Slot >= maxSlots || s.Types&allTypes == 0 || s.LeaseMS == 0 {
			r.Fail(fmt.Errorf("%w: slot %d, types %#x, lease %d ms", xdr.ErrValue, s.Slot, uint32(s.Types), s.LeaseMS))
		}
	case StatusRefused:
		s.Reason = Reason(r.Uint32())
	}
}
