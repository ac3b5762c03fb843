package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// ChannelAttrs is a channel_attrs4: the limits of one session channel (RFC
// 8881, Section 18.36). Lengths include the RPC header.
type ChannelAttrs struct {
	HeaderPadSize         uint32 // bytes
	MaxRequestSize        uint32 // bytes
	MaxResponseSize       uint32 // bytes
	MaxResponseSizeCached uint32 // bytes
	MaxOperations         uint32
	MaxRequests           uint32 // slots
	HasIRD                bool   // RDMAIRD is present
	RDMAIRD               uint32
}

// AppendTo appends c's wire form to b.
func (c *ChannelAttrs) AppendTo(b []byte) []byte {
	for _, v := range [...]uint32{
		c.HeaderPadSize, c.MaxRequestSize, c.MaxResponseSize, c.MaxResponseSizeCached, c.MaxOperations, c.MaxRequests,
	} {
		b = xdr.AppendUint32(b, v)
	}
	if b = xdr.AppendBool(b, c.HasIRD); c.HasIRD {
		b = xdr.AppendUint32(b, c.RDMAIRD)
	}
	return b
}

// Decode reads c.
func (c *ChannelAttrs) Decode(r *xdr.Reader) {
	c.HeaderPadSize, c.MaxRequestSize = r.Uint32(), r.Uint32()
	c.MaxResponseSize, c.MaxResponseSizeCached = r.Uint32(), r.Uint32()
	c.MaxOperations, c.MaxRequests = r.Uint32(), r.Uint32()
	c.RDMAIRD = 0
	if c.HasIRD = decodeEnum(r, "length of ca_rdma_ird", 0, 1) == 1; c.HasIRD {
		c.RDMAIRD = r.Uint32()
	}
}

// SecParms flavors (RFC 5531, RFC 2203).
const (
	CallbackNone uint32 = 0
	CallbackSys  uint32 = 1
)

// maxSecParms is the maximum number of SecParms that Decode accepts.
const maxSecParms = 16

// SecParms are a session's callback_sec_parms4: the credentials that a server
// may use in its callbacks. From the client's list, SecParms keeps whether
// AUTH_NONE is present, the first AUTH_SYS, and all RPCSEC_GSS entries.
type SecParms struct {
	N       uint32 // length of the decoded list
	None    bool
	Sys     bool
	UID     uint32 // of Sys, like GID
	GID     uint32
	Handles []CallbackHandles
}

// CallbackHandles are gss_cb_handles4: the server's and the client's handles for one
// security context (RFC 8881, Section 18.33.1).
type CallbackHandles struct {
	Service    uint32 // rpc_gss_svc_t (RFC 2203): 1 to 3
	FromServer []byte // used in the client's calls
	FromClient []byte // used in callbacks
}

// maxSysMachine is the maximum length of an AUTH_SYS machine name (RFC 5531,
// Appendix A).
const maxSysMachine = 255

// AppendTo appends a list: AUTH_NONE, AUTH_SYS, RPCSEC_GSS.
func (p *SecParms) AppendTo(b []byte) []byte {
	n := uint32(len(p.Handles))
	if p.None {
		n++
	}
	if p.Sys {
		n++
	}
	b = xdr.AppendUint32(b, n)
	if p.None {
		b = xdr.AppendUint32(b, CallbackNone)
	}
	if p.Sys {
		b = xdr.AppendUint32(xdr.AppendUint32(b, CallbackSys), 0) // stamp
		b = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, 0), p.UID), p.GID)
		b = xdr.AppendUint32(b, 0) // groups
	}
	for _, h := range p.Handles {
		b = xdr.AppendUint32(xdr.AppendUint32(b, FlavorGSS), h.Service)
		b = xdr.AppendOpaque(xdr.AppendOpaque(b, h.FromServer), h.FromClient)
	}
	return b
}

// Decode reads a list. The handles alias the message.
func (p *SecParms) Decode(r *xdr.Reader) {
	*p = SecParms{N: r.Uint32()}
	if p.N > maxSecParms {
		r.Fail(xdr.ErrLong)
	}
	for n := p.N; n > 0 && r.Err() == nil; n-- {
		switch r.Uint32() {
		case CallbackNone:
			p.None = true
		case CallbackSys:
			r.Uint32() // stamp
			r.Opaque(maxSysMachine)
			uid, gid := r.Uint32(), r.Uint32()
			for groups := decodeEnum(r, "number of groups", 0, 16); groups > 0; groups-- {
				r.Uint32()
			}
			if !p.Sys {
				p.Sys, p.UID, p.GID = true, uid, gid
			}
		case FlavorGSS:
			p.Handles = append(p.Handles, CallbackHandles{
				Service:    decodeEnum(r, "rpc_gss_svc_t", 1, 3),
				FromServer: r.Opaque(unbounded), FromClient: r.Opaque(unbounded),
			})
		default:
			r.Fail(xdr.ErrValue)
		}
	}
}

// CreateSessionArgs are the CREATE_SESSION arguments.
type CreateSessionArgs struct {
	ClientID   uint64
	Sequence   uint32
	Flags      uint32
	Fore, Back ChannelAttrs
	CBProgram  uint32
	SecParms   SecParms
}

// AppendTo appends a's wire form to b.
func (a *CreateSessionArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint64(b, a.ClientID), a.Sequence), a.Flags)
	b = xdr.AppendUint32(a.Back.AppendTo(a.Fore.AppendTo(b)), a.CBProgram)
	return a.SecParms.AppendTo(b)
}

// Decode reads a.
func (a *CreateSessionArgs) Decode(r *xdr.Reader) {
	a.ClientID, a.Sequence, a.Flags = r.Uint64(), r.Uint32(), r.Uint32()
	a.Fore.Decode(r)
	a.Back.Decode(r)
	a.CBProgram = r.Uint32()
	a.SecParms.Decode(r)
}

// CreateSessionRes are the CREATE_SESSION results; all fields except Status are
// valid only if Status is OK.
type CreateSessionRes struct {
	Status     Status
	Session    SessionID
	Sequence   uint32
	Flags      uint32
	Fore, Back ChannelAttrs
}

// AppendTo appends s's wire form to b.
func (s *CreateSessionRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status != OK {
		return b
	}
	b = xdr.AppendUint32(xdr.AppendUint32(s.Session.AppendTo(b), s.Sequence), s.Flags)
	return s.Back.AppendTo(s.Fore.AppendTo(b))
}

// Decode reads s.
func (s *CreateSessionRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	s.Session.Decode(r)
	s.Sequence, s.Flags = r.Uint32(), r.Uint32()
	s.Fore.Decode(r)
	s.Back.Decode(r)
}

// SessionArgs are the DESTROY_SESSION arguments.
type SessionArgs struct{ Session SessionID }

// AppendTo appends a's wire form to b.
func (a *SessionArgs) AppendTo(b []byte) []byte { return a.Session.AppendTo(b) }

// Decode reads a.
func (a *SessionArgs) Decode(r *xdr.Reader) { a.Session.Decode(r) }

// BIND_CONN_TO_SESSION directions, in arguments (Fore, Back, ForeOrBoth,
// BackOrBoth) and in results (Fore, Back, Both).
const (
	BindFore       uint32 = 1
	BindBack       uint32 = 2
	BindBoth       uint32 = 3
	BindForeOrBoth uint32 = 3
	BindBackOrBoth uint32 = 7
)

// BindConnArgs are the BIND_CONN_TO_SESSION arguments.
type BindConnArgs struct {
	Session SessionID
	Dir     uint32
	RDMA    bool
}

// AppendTo appends a's wire form to b.
func (a *BindConnArgs) AppendTo(b []byte) []byte {
	return xdr.AppendBool(xdr.AppendUint32(a.Session.AppendTo(b), a.Dir), a.RDMA)
}

// Decode reads a.
func (a *BindConnArgs) Decode(r *xdr.Reader) {
	a.Session.Decode(r)
	a.Dir = decodeEnum(r, "channel_dir_from_client4", BindFore, BindBackOrBoth)
	if a.Dir > BindForeOrBoth && a.Dir < BindBackOrBoth {
		r.Fail(xdr.ErrValue)
	}
	a.RDMA = r.Bool()
}

// BindConnRes are the BIND_CONN_TO_SESSION results; all fields except Status
// are valid only if Status is OK.
type BindConnRes struct {
	Status  Status
	Session SessionID
	Dir     uint32
	RDMA    bool
}

// AppendTo appends s's wire form to b.
func (s *BindConnRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status == OK {
		b = xdr.AppendBool(xdr.AppendUint32(s.Session.AppendTo(b), s.Dir), s.RDMA)
	}
	return b
}

// Decode reads s.
func (s *BindConnRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Session.Decode(r)
		s.Dir, s.RDMA = decodeEnum(r, "channel_dir_from_server4", BindFore, BindBoth), r.Bool()
	}
}

// BackchannelCtlArgs are the BACKCHANNEL_CTL arguments.
type BackchannelCtlArgs struct {
	CBProgram uint32
	SecParms  SecParms
}

// AppendTo appends a's wire form to b.
func (a *BackchannelCtlArgs) AppendTo(b []byte) []byte {
	return a.SecParms.AppendTo(xdr.AppendUint32(b, a.CBProgram))
}

// Decode reads a.
func (a *BackchannelCtlArgs) Decode(r *xdr.Reader) {
	a.CBProgram = r.Uint32()
	a.SecParms.Decode(r)
}

// SequenceArgs are the SEQUENCE arguments (RFC 8881, Section 18.46).
type SequenceArgs struct {
	Session                       SessionID
	Sequence, Slot, HighestSlotID uint32
	CacheThis                     bool
}

// AppendTo appends a's wire form to b.
func (a *SequenceArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendUint32(a.Session.AppendTo(b), a.Sequence), a.Slot)
	return xdr.AppendBool(xdr.AppendUint32(b, a.HighestSlotID), a.CacheThis)
}

// Decode reads a.
func (a *SequenceArgs) Decode(r *xdr.Reader) {
	a.Session.Decode(r)
	a.Sequence, a.Slot, a.HighestSlotID, a.CacheThis = r.Uint32(), r.Uint32(), r.Uint32(), r.Bool()
}

// SequenceRes are the SEQUENCE results; all fields except Status are valid only
// if Status is OK.
type SequenceRes struct {
	Status                             Status
	Session                            SessionID
	Sequence, Slot                     uint32
	HighestSlotID, TargetHighestSlotID uint32
	Flags                              uint32
}

// AppendTo appends s's wire form to b.
func (s *SequenceRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status != OK {
		return b
	}
	b = xdr.AppendUint32(xdr.AppendUint32(s.Session.AppendTo(b), s.Sequence), s.Slot)
	return xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, s.HighestSlotID), s.TargetHighestSlotID), s.Flags)
}

// Decode reads s.
func (s *SequenceRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	s.Session.Decode(r)
	s.Sequence, s.Slot = r.Uint32(), r.Uint32()
	s.HighestSlotID, s.TargetHighestSlotID, s.Flags = r.Uint32(), r.Uint32(), r.Uint32()
}
