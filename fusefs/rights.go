package fusefs

import (
	"math"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// rights are what callers may do with an object, as the server said while its ctime,
// which a change of rights moves, was what it is here, and under which grant.
type rights struct {
	ctime nfs3.Time
	grant uint64
	by    []right
}

// A right is one caller's, in the bits of ACCESS.
type right struct {
	who            *caller
	asked, allowed uint32
}

// noTime is a time that nothing has.
var noTime = nfs3.Time{Nsec: math.MaxUint32}

// allowedLocked returns which of the rights a caller has, if that is known.
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

// allowLocked notes which of the rights asked for a caller has.
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

// A reply says which of the rights asked for a caller has.
type reply struct {
	asked, allowed uint32

	began uint64          // tick before the call
	read  int64           // what the server's clock showed then at least (delegclient.Set)
	attr  nfs3.PostOpAttr // of the object
}

// allow notes what a reply says of a caller's rights. Where the call began before the
// grant came, the object must have been as it was granted.
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

// stampOf returns what tells an object's states apart.
func stampOf(a *nfs3.Attr) delegation.Stamp {
	return delegation.Stamp{Size: a.Size, MTime: nanoseconds(a.Mtime), CTime: nanoseconds(a.Ctime)}
}

// nanoseconds returns a time since 1970.
func nanoseconds(t nfs3.Time) int64 { return int64(t.Sec)*1e9 + int64(t.Nsec) }

// may returns which of the rights the caller has, from what is known under a grant, or
// else by ACCESS. n's attributes are known then. Where n is to be held (types is not
// 0), it is asked for at the same time.
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
	n.allow(who, r) // what came before the grant may count under it
	if allowed, known := n.mayHeld(o, who, want); known {
		return allowed, nil
	}
	r, err = m.access(o, n, who, want) // so that it is known from now on
	return r.allowed & want, err
}

// mayHeld is may for what is known under a grant.
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

// acquireBeside is acquire while the caller makes a call of its own. The function that
// it returns waits for the outcome; it must be called.
func (m *Mount) acquireBeside(o *op, n *node, types delegation.Types) func() bool {
	if types == 0 || n.object().Types() != 0 || !m.holdable(n) {
		return func() bool { return false }
	}
	done := make(chan bool, 1)
	go func() { done <- m.acquire(o, n, types) }()
	return func() bool { return <-done }
}

// access asks which of the rights the caller has. Of what may be held all is asked, as
// the next who asks may want others.
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
