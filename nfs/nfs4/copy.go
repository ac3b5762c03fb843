package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// NetLocType is a netloc_type4.
type NetLocType uint32

// The NetLocType values.
const (
	NetLocName NetLocType = iota + 1
	NetLocURL
	NetLocAddr
)

// A NetLoc is a netloc4: a server's location (RFC 7862, Section 4.7).
type NetLoc struct {
	Type  NetLocType
	NetID []byte // only with NetLocAddr
	Where []byte // a name, a URL, or a universal address
}

// AppendTo appends n's wire form to b.
func (n *NetLoc) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(n.Type)); n.Type == NetLocAddr {
		b = xdr.AppendOpaque(b, n.NetID)
	}
	return xdr.AppendOpaque(b, n.Where)
}

// Decode reads n, which aliases the Reader's input.
func (n *NetLoc) Decode(r *xdr.Reader) {
	n.Type = NetLocType(decodeEnum(r, "netloc_type4", uint32(NetLocName), uint32(NetLocAddr)))
	if n.NetID = nil; n.Type == NetLocAddr {
		n.NetID = r.Opaque(unbounded)
	}
	n.Where = r.Opaque(unbounded)
}

// maxSources is the maximum number of source servers that CopyArgs accepts.
const maxSources = 16

// CopyArgs are the COPY arguments (RFC 7862, Section 15.2). The source is the
// saved filehandle. Count 0 means up to the source's end. Without Sources the
// server copies locally.
type CopyArgs struct {
	SrcStateID, DstStateID StateID
	SrcOffset, DstOffset   uint64 // bytes
	Count                  uint64 // bytes
	Consecutive            bool   // the bytes must be copied in order
	Synchronous            bool   // the result must be final
	Sources                []NetLoc
}

// AppendTo appends a's wire form to b.
func (a *CopyArgs) AppendTo(b []byte) []byte {
	b = a.DstStateID.AppendTo(a.SrcStateID.AppendTo(b))
	b = xdr.AppendUint64(xdr.AppendUint64(xdr.AppendUint64(b, a.SrcOffset), a.DstOffset), a.Count)
	b = xdr.AppendBool(xdr.AppendBool(b, a.Consecutive), a.Synchronous)
	b = xdr.AppendUint32(b, uint32(len(a.Sources)))
	for i := range a.Sources {
		b = a.Sources[i].AppendTo(b)
	}
	return b
}

// Decode reads a.
func (a *CopyArgs) Decode(r *xdr.Reader) {
	a.SrcStateID.Decode(r)
	a.DstStateID.Decode(r)
	a.SrcOffset, a.DstOffset, a.Count = r.Uint64(), r.Uint64(), r.Uint64()
	a.Consecutive, a.Synchronous, a.Sources = r.Bool(), r.Bool(), nil
	n := r.Uint32()
	if n > maxSources {
		r.Fail(xdr.ErrLong)
	}
	for ; n > 0 && r.Err() == nil; n-- {
		var from NetLoc
		from.Decode(r)
		a.Sources = append(a.Sources, from)
	}
}

// A WriteResponse is a write_response4: the progress of a copy.
type WriteResponse struct {
	HasCallback bool    // the copy continues, and CB_OFFLOAD will report its end
	Callback    StateID // the copy's
	Count       uint64  // bytes
	Committed   Stable
	Verf        Verifier
}

// AppendTo appends w's wire form to b.
func (w *WriteResponse) AppendTo(b []byte) []byte {
	if b = xdr.AppendBool(b, w.HasCallback); w.HasCallback {
		b = w.Callback.AppendTo(b)
	}
	return w.Verf.AppendTo(xdr.AppendUint32(xdr.AppendUint64(b, w.Count), uint32(w.Committed)))
}

// Decode reads w.
func (w *WriteResponse) Decode(r *xdr.Reader) {
	w.Callback = StateID{}
	if w.HasCallback = decodeEnum(r, "length of wr_callback_id", 0, 1) == 1; w.HasCallback {
		w.Callback.Decode(r)
	}
	w.Count = r.Uint64()
	w.Committed = Stable(decodeEnum(r, "stable_how4", uint32(Unstable), uint32(FileSync)))
	w.Verf.Decode(r)
}

// CopyRes are the COPY results. Response is valid only if Status is OK,
// Consecutive and Synchronous if it is OK or ErrOffloadNoReqs.
type CopyRes struct {
	Status      Status
	Response    WriteResponse
	Consecutive bool
	Synchronous bool
}

// AppendTo appends s's wire form to b.
func (s *CopyRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	switch s.Status {
	case OK:
		b = s.Response.AppendTo(b)
	case ErrOffloadNoReqs:
	default:
		return b
	}
	return xdr.AppendBool(xdr.AppendBool(b, s.Consecutive), s.Synchronous)
}

// Decode reads s.
func (s *CopyRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	switch s.Status {
	case OK:
		s.Response.Decode(r)
	case ErrOffloadNoReqs:
	default:
		return
	}
	s.Consecutive, s.Synchronous = r.Bool(), r.Bool()
}

// CloneArgs are the CLONE arguments (RFC 7862, Section 15.13). The source is
// the saved filehandle. Count 0 means up to the source's end.
type CloneArgs struct {
	SrcStateID, DstStateID StateID
	SrcOffset, DstOffset   uint64 // bytes
	Count                  uint64 // bytes
}

// AppendTo appends a's wire form to b.
func (a *CloneArgs) AppendTo(b []byte) []byte {
	b = a.DstStateID.AppendTo(a.SrcStateID.AppendTo(b))
	return xdr.AppendUint64(xdr.AppendUint64(xdr.AppendUint64(b, a.SrcOffset), a.DstOffset), a.Count)
}

// Decode reads a.
func (a *CloneArgs) Decode(r *xdr.Reader) {
	a.SrcStateID.Decode(r)
	a.DstStateID.Decode(r)
	a.SrcOffset, a.DstOffset, a.Count = r.Uint64(), r.Uint64(), r.Uint64()
}

// OffloadStatusRes are the OFFLOAD_STATUS results (RFC 7862, Section 15.9). All
// fields except Status are valid only if Status is OK, and Complete only if
// Done is set too.
type OffloadStatusRes struct {
	Status   Status
	Count    uint64 // bytes copied so far
	Done     bool
	Complete Status // the copy's
}

// AppendTo appends s's wire form to b.
func (s *OffloadStatusRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status != OK {
		return b
	}
	if b = xdr.AppendBool(xdr.AppendUint64(b, s.Count), s.Done); s.Done {
		b = xdr.AppendUint32(b, uint32(s.Complete))
	}
	return b
}

// Decode reads s.
func (s *OffloadStatusRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	s.Count, s.Complete = r.Uint64(), OK
	if s.Done = decodeEnum(r, "length of osr_complete", 0, 1) == 1; s.Done {
		s.Complete = Status(r.Uint32())
	}
}
