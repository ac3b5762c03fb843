package nfs4state

import (
	"time"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A claim is state that a client believes that it has.
type claim struct {
	from uint64 // the client ID under which the server has granted it, or given it back

	// must says that a client that comes in time after a restart gets the
	// state back.
	must bool

	// tainted is the grant to another that is in conflict with the state. What
	// has been tainted may never be given back.
	tainted string
}

type openClaim struct {
	claim
	modes uint32
	id    nfs4.StateID
}

type byteClaim struct {
	claim
	kind locks.Kind
}

// A believer is a client over its restarts and those of the server. It has one
// open-owner, and follows the protocol unless it is a liar.
type believer struct {
	name     string
	verifier int
	liar     bool // reclaims anything
	away     bool

	id       uint64
	sequence uint32
	epoch    uint32 // of its session
	session  *Session
	complete bool
	heard    time.Duration // when a call last renewed the lease

	opens [modelObjects]openClaim
	bytes [modelOwners][modelObjects][cells]byteClaim
	sets  [modelOwners][modelObjects]nfs4.StateID

	revoked []nfs4.StateID // that an administrator has revoked

	tried  kinds // kinds of state that it has ever asked for
	listed bool  // may reclaim in this epoch
	had    kinds // with these kinds
}

// claims calls fn for each claim.
func (b *believer) claims(fn func(c *claim)) {
	for object := range modelObjects {
		if b.opens[object].modes != 0 {
			fn(&b.opens[object].claim)
		}
		for owner := range modelOwners {
			for at := range cells {
				if c := &b.bytes[owner][object][at]; c.kind != locks.None {
					fn(&c.claim)
				}
			}
		}
	}
}

// forget drops the claims for which drop returns true.
func (b *believer) forget(drop func(c *claim) bool) {
	for object := range modelObjects {
		if o := &b.opens[object]; o.modes != 0 && drop(&o.claim) {
			b.dropOpen(object)
		}
		for owner := range modelOwners {
			for at := range cells {
				if c := &b.bytes[owner][object][at]; c.kind != locks.None && drop(&c.claim) {
					*c = byteClaim{}
				}
			}
		}
	}
}

// dropOpen drops the claim to an open, and to all locks through it.
func (b *believer) dropOpen(object int) {
	b.opens[object] = openClaim{}
	for owner := range modelOwners {
		b.bytes[owner][object] = [cells]byteClaim{}
	}
}
