package fusefs

import (
	"math"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// rights holds the server's answers about the rights of callers to an object,
// and the object's ctime and grant at that time. A change of rights changes the
// ctime.
type rights struct {
	ctime nfs3.Time
	grant uint64
	by    []right
}

// A right is the right of one caller, in the bits of ACCESS.
type right struct {
	who            *caller
	asked, allowed uint32
}

// noTime is a time that no object has.
var noTime = nfs3.Time{Nsec: math.MaxUint32}

// allowedLocked returns the wanted rights that a caller has, if that is known.
func (n *node) allowedLocked(who *caller, want uint32) (allowed uint32, known bool) {
	r := n.rights
	if r == nil || r.grant != n.grant || r.ctime != n.attr.Ctime {
		return 0, false
	}
	for i := range r.by {
		if b := &r.by[i]; b.asked&want == want && b.who.same(who) {
			return b.allowed & want, true
		}
	}
	return 0, false
}

// allowLocked records which of the asked rights a caller has.
func (n *node) allowLocked(who *caller, asked, allowed uint32) {
	r := n.rights
	if r == nil || r.grant != n.grant || r.ctime != n.attr.Ctime {
		r = &rights{grant: n.grant, ctime: n.attr.Ctime}
		n.rights = r
	}
	for i := range r.by {
		if b := &r.by[i]; b.who.same(who) {
			b.asked, b.allowed = b.asked|asked, b.allowed&^asked|allowed&asked
			return
		}
	}
	if len(r.by) >= maxRights {
		r.by = nil
	}
	r.by = append(r.by, right{who, asked, allowed & asked})
}

// A reply is the answer of ACCESS: which of the asked rights a caller has.
type reply struct {
	asked, allowed uint32

	began uint64          // tick before the call
	read  int64           // lower bound of the server's clock then (delegclient.Set)
	attr  nfs3.PostOpAttr // of the object
}

// allow records the rights of a caller from a reply. If the call began before
// the grant came, the reply counts only if the object's state was as granted.
func (n *node) allow(who *caller, r reply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.began <= n.changed && n.grant != 0 {
		return
	}
	if r.began < n.grant && !(r.attr.OK && n.learnt >= n.grant && delegation.Unchanged(stampOf(&r.attr.Attr), stampOf(&n.attr), r.read)) {
		return
	}
	n.allowLocked(who, r.asked, r.allowed)
}

// stampOf returns the part of the attributes that distinguishes an object's
// states.
func stampOf(a *nfs3.Attr) delegation.Stamp {
	return delegation.Stamp{Size: a.Size, MTime: nanoseconds(a.Mtime), CTime: nanoseconds(a.Ctime)}
}

// nanoseconds returns t in nanoseconds since 1970.
func nanoseconds(t nfs3.Time) int64 { return int64(t.Sec)*1e9 + int64(t.Nsec) }

// may returns which of the wanted rights the caller has, from knowledge under a
// grant or otherwise by ACCESS. Afterwards n's attributes are known. If types
// is not 0, may concurrently asks for a delegation of n.
func (m *Mount) may(o *op, n *node, want uint32, types delegation.Types) (allowed uint32, err error) {
	who := o.who()
	if allowed, known := n.mayHeld(o, who, want); known {
		return allowed, nil
	}
	granted := m.acquireBeside(o, n, types)
	r, err := m.access(o, n, who, want)
	if !granted() || err != nil || n.object().Types()&ofAttributes == 0 {
		return r.allowed & want, err
	}
	n.allow(who, r) // a reply from before the grant may be valid under it
	if allowed, known := n.mayHeld(o, who, want); known {
		return allowed, nil
	}
	r, err = m.access(o, n, who, want) // so that the rights are known from now on
	return r.allowed & want, err
}

// mayHeld is may for rights known under a grant.
func (n *node) mayHeld(o *op, who *caller, want uint32) (allowed uint32, known bool) {
	if !n.trusted(o, ofAttributes) {
		return 0, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trustLocked(ofAttributes) == 0 || n.learnt < n.grant || n.freshLocked() == 0 {
		return 0, false
	}
	return n.allowedLocked(who, want)
}

// acquireBeside runs acquire concurrently with a call that the caller makes.
// The returned function waits for the outcome. The caller must call the
// function.
func (m *Mount) acquireBeside(o *op, n *node, types delegation.Types) func() bool {
	if types == 0 || n.object().Types() != 0 || !m.holdable(n) {
		return func() bool { return false }
	}
	done := make(chan bool, 1)
	go func() { done <- m.acquire(o, n, types) }()
	return func() bool { return <-done }
}

// access asks the server for the caller's rights. For an object that can be
// held it asks for all rights, because later callers may want others.
func (m *Mount) access(o *op, n *node, who *caller, want uint32) (reply, error) {
	r := reply{asked: want, began: m.tick(), read: m.cfg.Held.ServerTime()}
	if m.holdable(n) {
		r.asked |= everyRight
	}
	res, err := who.client.Access(o, n.fh, r.asked)
	if err != nil {
		return reply{}, err
	}
	if err := m.learnOrFetch(o, n, r.began, &res.Attr); err != nil {
		return reply{}, err
	}
	r.allowed, r.attr = res.Access, res.Attr
	n.allow(who, r)
	return r, nil
}

// everyRight are the rights that ACCESS knows.
const everyRight = nfs3.AccessRead | nfs3.AccessLookup | nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete | nfs3.AccessExecute
