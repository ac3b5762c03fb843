package nlm4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// A Lock is an nlm4_lock: an owner, and a range in a file. Caller, Owner and
// SVID together identify the owner.
type Lock struct {
	Caller []byte // the client's name, at most CallerLen bytes
	Handle []byte // the file's, at most ObjectLen bytes: an NFS handle has at most 64
	Owner  []byte // at most ObjectLen bytes, chosen by the client
	SVID   int32  // the client's number for a process
	Offset uint64
	Length uint64 // 0: up to the end of the file, even if it grows
}

func (l *Lock) appendTo(b []byte, vers uint32) []byte {
	b = xdr.AppendOpaque(b, l.Caller)
	b = xdr.AppendOpaque(b, l.Handle)
	b = xdr.AppendOpaque(b, l.Owner)
	b = xdr.AppendUint32(b, uint32(l.SVID))
	if vers != Version && l.Offset <= max32 && l.Length <= max32 {
		// As sent by the client, which compares GRANTED with its LOCK.
		return xdr.AppendUint32(xdr.AppendUint32(b, uint32(l.Offset)), uint32(l.Length))
	}
	return appendRange(b, vers, l.Offset, l.Length)
}

func (l *Lock) decodeVersion(r *xdr.Reader, vers uint32) {
	l.Caller = r.Opaque(CallerLen)
	l.Handle = r.Opaque(ObjectLen)
	l.Owner = r.Opaque(ObjectLen)
	l.SVID = int32(r.Uint32())
	l.Offset, l.Length = readRange(r, vers)
}

const max32 = 1<<32 - 1

// appendRange appends an offset and a length. A range that 32 bits cannot
// represent is truncated: an offset is clipped, and a longer range has no end.
func appendRange(b []byte, vers uint32, offset, length uint64) []byte {
	if vers == Version {
		return xdr.AppendUint64(xdr.AppendUint64(b, offset), length)
	}
	offset = min(offset, max32)
	if length > max32-offset {
		length = 0
	}
	return xdr.AppendUint32(xdr.AppendUint32(b, uint32(offset)), uint32(length))
}

func readRange(r *xdr.Reader, vers uint32) (offset, length uint64) {
	if vers == Version {
		offset = r.Uint64()
		return offset, r.Uint64()
	}
	offset = uint64(r.Uint32())
	return offset, uint64(r.Uint32())
}

// LockArgs are the LOCK and NM_LOCK arguments.
type LockArgs struct {
	Cookie    []byte // at most ObjectLen bytes: returned in the result
	Block     bool   // if the lock is not free, the client waits for GRANTED
	Exclusive bool
	Lock      Lock
	Reclaim   bool  // the client had the lock before the server restarted
	State     int32 // the client's status monitor's state number
}

// AppendTo appends a's wire form to b.
func (a *LockArgs) AppendTo(b []byte, vers uint32) []byte {
	b = xdr.AppendBool(xdr.AppendOpaque(b, a.Cookie), a.Block)
	b = a.Lock.appendTo(xdr.AppendBool(b, a.Exclusive), vers)
	return xdr.AppendUint32(xdr.AppendBool(b, a.Reclaim), uint32(a.State))
}

// Decode reads a.
func (a *LockArgs) Decode(r *xdr.Reader, vers uint32) {
	a.Cookie = r.Opaque(ObjectLen)
	a.Block = r.Bool()
	a.Exclusive = r.Bool()
	a.Lock.decodeVersion(r, vers)
	a.Reclaim = r.Bool()
	a.State = int32(r.Uint32())
}

// TestArgs are the TEST and GRANTED arguments.
type TestArgs struct {
	Cookie    []byte // at most ObjectLen bytes
	Exclusive bool
	Lock      Lock
}

// AppendTo appends a's wire form to b.
func (a *TestArgs) AppendTo(b []byte, vers uint32) []byte {
	b = xdr.AppendBool(xdr.AppendOpaque(b, a.Cookie), a.Exclusive)
	return a.Lock.appendTo(b, vers)
}

// Decode reads a.
func (a *TestArgs) Decode(r *xdr.Reader, vers uint32) {
	a.Cookie = r.Opaque(ObjectLen)
	a.Exclusive = r.Bool()
	a.Lock.decodeVersion(r, vers)
}

// CancelArgs are the CANCEL arguments: those of the waiting LOCK.
type CancelArgs struct {
	Cookie    []byte // at most ObjectLen bytes
	Block     bool
	Exclusive bool
	Lock      Lock
}

// AppendTo appends a's wire form to b.
func (a *CancelArgs) AppendTo(b []byte, vers uint32) []byte {
	b = xdr.AppendBool(xdr.AppendOpaque(b, a.Cookie), a.Block)
	return a.Lock.appendTo(xdr.AppendBool(b, a.Exclusive), vers)
}

// Decode reads a.
func (a *CancelArgs) Decode(r *xdr.Reader, vers uint32) {
	a.Cookie = r.Opaque(ObjectLen)
	a.Block = r.Bool()
	a.Exclusive = r.Bool()
	a.Lock.decodeVersion(r, vers)
}

// UnlockArgs are the UNLOCK arguments.
type UnlockArgs struct {
	Cookie []byte // at most ObjectLen bytes
	Lock   Lock
}

// AppendTo appends a's wire form to b.
func (a *UnlockArgs) AppendTo(b []byte, vers uint32) []byte {
	return a.Lock.appendTo(xdr.AppendOpaque(b, a.Cookie), vers)
}

// Decode reads a.
func (a *UnlockArgs) Decode(r *xdr.Reader, vers uint32) {
	a.Cookie = r.Opaque(ObjectLen)
	a.Lock.decodeVersion(r, vers)
}
