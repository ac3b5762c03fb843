package nlm4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// Res are the LOCK, CANCEL, UNLOCK, GRANTED and NM_LOCK results, and the
// arguments of the _RES procedures except TEST_RES.
type Res struct {
	Cookie []byte // from the arguments
	Status Status
}

// AppendTo appends s's wire form to b. A Status that the version lacks is
// replaced by the nearest.
func (s *Res) AppendTo(b []byte, vers uint32) []byte {
	return appendStatus(xdr.AppendOpaque(b, s.Cookie), vers, s.Status)
}

// Decode reads s. A Status that the version does not define is an error.
func (s *Res) Decode(r *xdr.Reader, vers uint32) {
	s.Cookie = r.Opaque(ObjectLen)
	s.Status = readStatus(r, vers)
}

func appendStatus(b []byte, vers uint32, s Status) []byte {
	return xdr.AppendUint32(b, uint32(s.mapToVersion(vers)))
}

func readStatus(r *xdr.Reader, vers uint32) Status {
	s := Status(r.Uint32())
	if s > lastStatus(vers) {
		r.Fail(xdr.ErrValue)
		return Failed
	}
	return s
}

// A Holder is an nlm4_holder: a conflicting lock. It does not identify the
// client.
type Holder struct {
	Exclusive bool
	SVID      int32
	Owner     []byte // at most ObjectLen bytes
	Offset    uint64
	Length    uint64 // 0: up to the end of the file
}

// TestRes are the TEST results and the arguments of TEST_RES. Holder is valid
// only if Status is Denied.
type TestRes struct {
	Cookie []byte
	Status Status
	Holder Holder
}

// AppendTo appends s's wire form to b. A Status that the version lacks is
// replaced by the nearest.
func (s *TestRes) AppendTo(b []byte, vers uint32) []byte {
	b = appendStatus(xdr.AppendOpaque(b, s.Cookie), vers, s.Status)
	if s.Status.mapToVersion(vers) != Denied {
		return b
	}
	h := &s.Holder
	b = xdr.AppendUint32(xdr.AppendBool(b, h.Exclusive), uint32(h.SVID))
	return appendRange(xdr.AppendOpaque(b, h.Owner), vers, h.Offset, h.Length)
}

// Decode reads s. A Status that the version does not define is an error.
func (s *TestRes) Decode(r *xdr.Reader, vers uint32) {
	*s = TestRes{Cookie: r.Opaque(ObjectLen), Status: readStatus(r, vers)}
	if s.Status != Denied {
		return
	}
	h := &s.Holder
	h.Exclusive = r.Bool()
	h.SVID = int32(r.Uint32())
	h.Owner = r.Opaque(ObjectLen)
	h.Offset, h.Length = readRange(r, vers)
}
