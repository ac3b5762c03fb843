package nfs4state

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A claim is state that a client believes it has.
type claim struct {
	from uint64 // the client ID for which the server granted it, or allowed the reclaim

	// must says that a client that reclaims in time after a restart gets the
	// state back.
	must bool

	// tainted is a grant to another client that conflicts with the state.
	// Tainted state must never be reclaimed.
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

// An outageClient is a client that survives its own restarts and the server's.
// It has one open-owner, and follows the protocol unless it is a liar.
type outageClient struct {
	name     string
	verifier int
	liar     bool // reclaims anything
	away     bool

	id         uint64
	sequence   uint32
	epoch      uint32 // the session's
	session    *Session
	complete   bool
	lastCallAt time.Duration // when a call last renewed the lease

	opens [modelObjects]openClaim
	bytes [modelOwners][modelObjects][cells]byteClaim
	sets  [modelOwners][modelObjects]nfs4.StateID

	revoked []nfs4.StateID // revoked by an administrator

	tried  stateKinds // kinds of state that it has ever requested
	listed bool       // may reclaim in this epoch
	had    stateKinds // with these kinds
}

// eachClaim calls fn for each claim.
func (b *outageClient) eachClaim(fn func(c *claim)) {
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

// dropClaims drops the claims for which drop returns true.
func (b *outageClient) dropClaims(drop func(c *claim) bool) {
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
func (b *outageClient) dropOpen(object int) {
	b.opens[object] = openClaim{}
	for owner := range modelOwners {
		b.bytes[owner][object] = [cells]byteClaim{}
	}
}
