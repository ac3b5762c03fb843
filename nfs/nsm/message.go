package nsm

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// StatArgs are the STAT arguments (sm_name).
type StatArgs struct {
	Name []byte // a host's, at most NameLen bytes
}

// AppendTo appends a's wire form to b.
func (a *StatArgs) AppendTo(b []byte) []byte { return xdr.AppendOpaque(b, a.Name) }

// Decode reads a.
func (a *StatArgs) Decode(r *xdr.Reader) { a.Name = r.Opaque(NameLen) }

// StatRes are the STAT and MON results (sm_stat_res).
type StatRes struct {
	Failed bool  // stat_fail: the host is not monitored
	State  int32 // the monitor's own host's
}

// AppendTo appends s's wire form to b.
func (s *StatRes) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendBool(b, s.Failed), uint32(s.State))
}

// Decode reads s.
func (s *StatRes) Decode(r *xdr.Reader) {
	s.Failed = r.Bool()
	s.State = int32(r.Uint32())
}

// An Asker is a program that must be notified of restarts, and the procedure
// with which the monitor notifies it (my_id). It is the UNMON_ALL argument.
type Asker struct {
	Name             []byte // the requester's host, at most NameLen bytes
	Prog, Vers, Proc uint32
}

// AppendTo appends a's wire form to b.
func (a *Asker) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendOpaque(b, a.Name), a.Prog)
	return xdr.AppendUint32(xdr.AppendUint32(b, a.Vers), a.Proc)
}

// Decode reads a.
func (a *Asker) Decode(r *xdr.Reader) {
	a.Name = r.Opaque(NameLen)
	a.Prog = r.Uint32()
	a.Vers = r.Uint32()
	a.Proc = r.Uint32()
}

// UnmonArgs are the UNMON arguments (mon_id).
type UnmonArgs struct {
	Name  []byte // the monitored host's, at most NameLen bytes
	Asker Asker
}

// AppendTo appends a's wire form to b.
func (a *UnmonArgs) AppendTo(b []byte) []byte { return a.Asker.AppendTo(xdr.AppendOpaque(b, a.Name)) }

// Decode reads a.
func (a *UnmonArgs) Decode(r *xdr.Reader) {
	a.Name = r.Opaque(NameLen)
	a.Asker.Decode(r)
}

// MonArgs are the MON arguments (mon).
type MonArgs struct {
	Name  []byte // the name of the host to monitor, at most NameLen bytes
	Asker Asker
	Priv  [PrivLen]byte // returned in the callback
}

// AppendTo appends a's wire form to b.
func (a *MonArgs) AppendTo(b []byte) []byte {
	return append(a.Asker.AppendTo(xdr.AppendOpaque(b, a.Name)), a.Priv[:]...)
}

// Decode reads a.
func (a *MonArgs) Decode(r *xdr.Reader) {
	a.Name = r.Opaque(NameLen)
	a.Asker.Decode(r)
	a.Priv = readPriv(r)
}

func readPriv(r *xdr.Reader) (p [PrivLen]byte) {
	copy(p[:], r.Fixed(PrivLen))
	return p
}

// State is the UNMON and UNMON_ALL result: the state number of the monitor's
// own host, which is odd while the host is up (sm_stat).
type State int32

// AppendTo appends s's wire form to b.
func (s *State) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, uint32(*s)) }

// Decode reads s.
func (s *State) Decode(r *xdr.Reader) { *s = State(r.Uint32()) }

// NotifyArgs are the NOTIFY arguments (stat_chge).
type NotifyArgs struct {
	Name  []byte // the restarted host's, at most NameLen bytes
	State int32  // its new state number
}

// AppendTo appends a's wire form to b.
func (a *NotifyArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendOpaque(b, a.Name), uint32(a.State))
}

// Decode reads a.
func (a *NotifyArgs) Decode(r *xdr.Reader) {
	a.Name = r.Opaque(NameLen)
	a.State = int32(r.Uint32())
}

// CallbackArgs are the arguments of the call with which a monitor reports a
// restart (status).
type CallbackArgs struct {
	Name  []byte // the restarted host's, as in MonArgs
	State int32  // its new state number
	Priv  [PrivLen]byte
}

// AppendTo appends a's wire form to b.
func (a *CallbackArgs) AppendTo(b []byte) []byte {
	return append(xdr.AppendUint32(xdr.AppendOpaque(b, a.Name), uint32(a.State)), a.Priv[:]...)
}

// Decode reads a.
func (a *CallbackArgs) Decode(r *xdr.Reader) {
	a.Name = r.Opaque(NameLen)
	a.State = int32(r.Uint32())
	a.Priv = readPriv(r)
}
