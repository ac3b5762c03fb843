package nlm4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// ShareMode is a set of bits: the access that a client requests (fsh4_access)
// or denies to others (fsh4_mode).
type ShareMode uint32

// The bits of ShareMode.
const (
	Read  ShareMode = 1
	Write ShareMode = 2
)

// A Share is an nlm4_share: a share reservation for a file.
type Share struct {
	Caller []byte    // the client's name, at most CallerLen bytes
	Handle []byte    // the file's, at most ObjectLen bytes
	Owner  []byte    // at most ObjectLen bytes
	Deny   ShareMode // denied to others
	Access ShareMode // for the owner
}

// ShareArgs are the SHARE and UNSHARE arguments, which are the same in all
// versions that have them.
type ShareArgs struct {
	Cookie  []byte // at most ObjectLen bytes
	Share   Share
	Reclaim bool
}

// AppendTo appends a's wire form to b.
func (a *ShareArgs) AppendTo(b []byte, _ uint32) []byte {
	b = xdr.AppendOpaque(xdr.AppendOpaque(b, a.Cookie), a.Share.Caller)
	b = xdr.AppendOpaque(xdr.AppendOpaque(b, a.Share.Handle), a.Share.Owner)
	b = xdr.AppendUint32(xdr.AppendUint32(b, uint32(a.Share.Deny)), uint32(a.Share.Access))
	return xdr.AppendBool(b, a.Reclaim)
}

// Decode reads a. Undefined bits of a ShareMode are an error.
func (a *ShareArgs) Decode(r *xdr.Reader, _ uint32) {
	a.Cookie = r.Opaque(ObjectLen)
	a.Share = Share{Caller: r.Opaque(CallerLen), Handle: r.Opaque(ObjectLen), Owner: r.Opaque(ObjectLen)}
	a.Share.Deny = readMode(r)
	a.Share.Access = readMode(r)
	a.Reclaim = r.Bool()
}

func readMode(r *xdr.Reader) ShareMode {
	m := ShareMode(r.Uint32())
	if m > Read|Write {
		r.Fail(xdr.ErrValue)
		return 0
	}
	return m
}

// ShareRes are the SHARE and UNSHARE results.
type ShareRes struct {
	Cookie   []byte
	Status   Status
	Sequence int32 // unused: 0
}

// AppendTo appends s's wire form to b. A Status that the version lacks is
// replaced by the nearest.
func (s *ShareRes) AppendTo(b []byte, vers uint32) []byte {
	b = appendStatus(xdr.AppendOpaque(b, s.Cookie), vers, s.Status)
	return xdr.AppendUint32(b, uint32(s.Sequence))
}

// Decode reads s. A Status that the version does not define is an error.
func (s *ShareRes) Decode(r *xdr.Reader, vers uint32) {
	s.Cookie = r.Opaque(ObjectLen)
	s.Status = readStatus(r, vers)
	s.Sequence = int32(r.Uint32())
}

// Notify are the FREE_ALL arguments: a client that has restarted.
type Notify struct {
	Name  []byte // at most NotifyLen bytes
	State int32  // the client's status monitor's state number
}

// AppendTo appends a's wire form to b.
func (a *Notify) AppendTo(b []byte, _ uint32) []byte {
	return xdr.AppendUint32(xdr.AppendOpaque(b, a.Name), uint32(a.State))
}

// Decode reads a.
func (a *Notify) Decode(r *xdr.Reader, _ uint32) {
	a.Name = r.Opaque(NotifyLen)
	a.State = int32(r.Uint32())
}
