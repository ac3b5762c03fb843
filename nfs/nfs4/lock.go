package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// LockType is an nfs_lock_type4. A client that waits for a lock uses
// LockReadWait or LockWriteWait.
type LockType uint32

// The LockType values.
const (
	LockRead LockType = iota + 1
	LockWrite
	LockReadWait
	LockWriteWait
)

func decodeLockType(r *xdr.Reader) LockType {
	return LockType(decodeEnum(r, "nfs_lock_type4", uint32(LockRead), uint32(LockWriteWait)))
}

// LockArgs are the LOCK arguments (RFC 8881, Section 18.10). With New, the
// lock-owner has no lock stateid for the file yet: StateID is the open's.
type LockArgs struct {
	Type           LockType
	Reclaim        bool
	Offset, Length uint64 // bytes; a Length of all ones means up to the end
	New            bool
	OpenSeqID      uint32 // with New, NFSv4.0 only
	StateID        StateID
	LockSeqID      uint32     // NFSv4.0 only
	Owner          StateOwner // with New
}

// AppendTo appends a's wire form to b.
func (a *LockArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendBool(xdr.AppendUint32(b, uint32(a.Type)), a.Reclaim)
	b = xdr.AppendUint64(xdr.AppendUint64(b, a.Offset), a.Length)
	if b = xdr.AppendBool(b, a.New); a.New {
		b = xdr.AppendUint32(b, a.OpenSeqID)
	}
	if b = xdr.AppendUint32(a.StateID.AppendTo(b), a.LockSeqID); a.New {
		b = a.Owner.AppendTo(b)
	}
	return b
}

// Decode reads a.
func (a *LockArgs) Decode(r *xdr.Reader) {
	a.OpenSeqID, a.Owner = 0, StateOwner{}
	a.Type, a.Reclaim = decodeLockType(r), r.Bool()
	a.Offset, a.Length = r.Uint64(), r.Uint64()
	if a.New = r.Bool(); a.New {
		a.OpenSeqID = r.Uint32()
	}
	a.StateID.Decode(r)
	if a.LockSeqID = r.Uint32(); a.New {
		a.Owner.Decode(r)
	}
}

// LockDenied is a LOCK4denied: a conflicting lock.
type LockDenied struct {
	Offset, Length uint64 // bytes
	Type           LockType
	Owner          StateOwner
}

// AppendTo appends d's wire form to b.
func (d *LockDenied) AppendTo(b []byte) []byte {
	b = xdr.AppendUint64(xdr.AppendUint64(b, d.Offset), d.Length)
	return d.Owner.AppendTo(xdr.AppendUint32(b, uint32(d.Type)))
}

// Decode reads d.
func (d *LockDenied) Decode(r *xdr.Reader) {
	d.Offset, d.Length, d.Type = r.Uint64(), r.Uint64(), decodeLockType(r)
	d.Owner.Decode(r)
}

// LockRes are the LOCK results. StateID is valid only if Status is OK, Denied
// only if it is ErrDenied.
type LockRes struct {
	Status  Status
	StateID StateID
	Denied  LockDenied
}

// AppendTo appends s's wire form to b.
func (s *LockRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	switch s.Status {
	case OK:
		b = s.StateID.AppendTo(b)
	case ErrDenied:
		b = s.Denied.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *LockRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	switch s.Status {
	case OK:
		s.StateID.Decode(r)
	case ErrDenied:
		s.Denied.Decode(r)
	}
}

// LockTArgs are the LOCKT arguments.
type LockTArgs struct {
	Type           LockType
	Offset, Length uint64 // bytes
	Owner          StateOwner
}

// AppendTo appends a's wire form to b.
func (a *LockTArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint64(xdr.AppendUint64(xdr.AppendUint32(b, uint32(a.Type)), a.Offset), a.Length)
	return a.Owner.AppendTo(b)
}

// Decode reads a.
func (a *LockTArgs) Decode(r *xdr.Reader) {
	a.Type, a.Offset, a.Length = decodeLockType(r), r.Uint64(), r.Uint64()
	a.Owner.Decode(r)
}

// LockTRes are the LOCKT results. Denied is valid only if Status is ErrDenied.
type LockTRes struct {
	Status Status
	Denied LockDenied
}

// AppendTo appends s's wire form to b.
func (s *LockTRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status == ErrDenied {
		b = s.Denied.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *LockTRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == ErrDenied {
		s.Denied.Decode(r)
	}
}

// LockUArgs are the LOCKU arguments.
type LockUArgs struct {
	Type           LockType // ignored by servers
	SeqID          uint32   // NFSv4.0 only
	StateID        StateID
	Offset, Length uint64 // bytes
}

// AppendTo appends a's wire form to b.
func (a *LockUArgs) AppendTo(b []byte) []byte {
	b = a.StateID.AppendTo(xdr.AppendUint32(xdr.AppendUint32(b, uint32(a.Type)), a.SeqID))
	return xdr.AppendUint64(xdr.AppendUint64(b, a.Offset), a.Length)
}

// Decode reads a.
func (a *LockUArgs) Decode(r *xdr.Reader) {
	a.Type, a.SeqID = decodeLockType(r), r.Uint32()
	a.StateID.Decode(r)
	a.Offset, a.Length = r.Uint64(), r.Uint64()
}
