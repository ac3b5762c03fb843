package nsm

import "github.com/nfsrdma/nfsrdma/xdr"

// StatArgs are the arguments of STAT (sm_name).
type StatArgs struct {
	Name []byte // of a host, at most NameLen bytes
}

// AppendTo appends the wire form of a to b.
func (a *StatArgs) AppendTo(b []byte) []byte { return xdr.AppendOpaque(b, a.Name) }

// Decode reads a.
func (a *StatArgs) Decode(r *xdr.Reader) { a.Name = r.Opaque(NameLen) }

// StatRes are the results of STAT and MON (sm_stat_res).
type StatRes struct {
	Failed bool  // stat_fail: the host is not monitored
	State  int32 // of the monitor's own host
}

// AppendTo appends the wire form of s to b.
func (s *StatRes) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendBool(b, s.Failed), uint32(s.State))
}

// Decode reads s.
func (s *StatRes) Decode(r *xdr.Reader) {
	s.Failed = r.Bool()
	s.State = int32(r.Uint32())
}

// An Asker is a program that wants to know of restarts, and the procedure by
// which the monitor tells it (my_id). It is the argument of UNMON_ALL.
type Asker struct {
	Name             []byte // of the asker's host, at most NameLen bytes
	Prog, Vers, Proc uint32
}

// AppendTo appends the wire form of a to b.
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

// UnmonArgs are the arguments of UNMON (mon_id).
type UnmonArgs struct {
	Name  []byte // of the monitored host, at most NameLen bytes
	Asker Asker
}

// AppendTo appends the wire form of a to b.
func (a *UnmonArgs) AppendTo(b []byte) []byte { return a.Asker.AppendTo(xdr.AppendOpaque(b, a.Name)) }

// Decode reads a.
func (a *UnmonArgs) Decode(r *xdr.Reader) {
	a.Name = r.Opaque(NameLen)
	a.Asker.Decode(r)
}

// MonArgs are the arguments of MON (mon).
type MonArgs struct {
	Name  []byte // of the host to monitor, at most NameLen bytes
	Asker Asker
	Priv  [PrivLen]byte // returned in the callback
}

// AppendTo appends the wire form of a to b.
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

// State is the result of UNMON and UNMON_ALL: the state number of the monitor's
// own host, which is odd while the host is up (sm_stat).
type State int32

// AppendTo appends the wire form of s to b.
func (s *State) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, uint32(*s)) }

// Decode reads s.
func (s *State) Decode(r *xdr.Reader) { *s = State(r.Uint32()) }

// NotifyArgs are the arguments of NOTIFY (stat_chge).
type NotifyArgs struct {
	Name  []byte // of the host that has restarted, at most NameLen bytes
	State int32  // its new state number
}

// AppendTo appends the wire form of a to b.
func (a *NotifyArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendOpaque(b, a.Name), uint32(a.State))
}

// Decode reads a.
func (a *NotifyArgs) Decode(r *xdr.Reader) {
	a.Name = r.Opaque(NameLen)
	a.State = int32(r.Uint32())
}

// CallbackArgs are the arguments of the call by which a monitor tells an asker of
// a restart (status).
type CallbackArgs struct {
	Name  []byte // of the host that has restarted, as in MonArgs
	State int32  // its new state number
	Priv  [PrivLen]byte
}

// AppendTo appends the wire form of a to b.
func (a *CallbackArgs) AppendTo(b []byte) []byte {
	return append(xdr.AppendUint32(xdr.AppendOpaque(b, a.Name), uint32(a.State)), a.Priv[:]...)
}

// Decode reads a.
func (a *CallbackArgs) Decode(r *xdr.Reader) {
	a.Name = r.Opaque(NameLen)
	a.State = int32(r.Uint32())
	a.Priv = readPriv(r)
}
