package nfs4state

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// from returns an EXCHANGE_ID that comes from a host.
func from(host byte, owner string) *Exchange {
	x := exchange(owner, 1, 0)
	x.Party = fairshare.PartyOfIP(netip.AddrFrom4([4]byte{192, 0, 2, host}))
	return x
}

// clientFrom makes a client of a host that has nothing to reclaim, with a
// session.
func (w *world) clientFrom(host byte, owner string) *Session {
	id, sequence, _ := w.exchange(from(host, owner))
	s := w.create(create(id, sequence, 0))
	w.ReclaimComplete(s)
	return s
}

// TestPartiesShareClients checks that a host which makes clients without end
// leaves room for those of others.
func TestPartiesShareClients(t *testing.T) {
	w := newWorld(t)
	first := w.clientFrom(1, "first")
	made := 0
	for status := nfs4.OK; status == nfs4.OK; made++ {
		var id uint64
		var sequence uint32
		if id, sequence, _, status = w.ExchangeID(from(1, fmt.Sprint(made))); status == nfs4.OK {
			w.create(create(id, sequence, 0))
		}
	}
	want(t, "clients of one host", made, maxClients/2)
	for i := range maxClients / 8 {
		w.clientFrom(2, fmt.Sprint("of another", i))
	}
	w.locksAgree()
	want(t, "the first client's next call", w.next(first, 0).New, true)
	_, _, _, status := w.ExchangeID(from(1, "one more"))
	want(t, "EXCHANGE_ID of the host with the most", status, nfs4.ErrDelay)

	w.sleep(testLease + 1)
	w.clientFrom(1, "one more") // in place of a silent client of the same host
	want(t, "clients of the other host", w.party(from(2, "").Party).used[clientRecords], maxClients/8)
}

// TestPartiesShareUnconfirmed checks that a host which only sends EXCHANGE_ID
// displaces its own records, and no other's.
func TestPartiesShareUnconfirmed(t *testing.T) {
	w := newWorld(t)
	id, sequence, _ := w.exchange(from(1, "a"))
	for i := range 3 * maxUnconfirmed {
		w.exchange(from(2, fmt.Sprint(i)))
	}
	w.create(create(id, sequence, 0))
	want(t, "records of the other host", w.party(from(2, "").Party).used[unconfirmedRecords], maxUnconfirmed/2)
	w.locksAgree()
}

// TestPartiesShareSessions checks that a host which makes sessions without end
// leaves room, and memory for replies, to others.
func TestPartiesShareSessions(t *testing.T) {
	w := newWorld(t)
	made := 0
	for c := 0; made < maxAllSessions/2; c++ {
		id, sequence, _ := w.exchange(from(1, fmt.Sprint(c)))
		for range maxSessions {
			a := create(id, sequence, 0)
			a.Fore.MaxRequests, a.Fore.MaxResponseSizeCached = 64, 8<<10
			w.create(a)
			sequence++
			made++
		}
	}
	id, sequence, _ := w.exchange(from(1, "more"))
	want(t, "one more session of the host", w.CreateSession(create(id, sequence, 0)).Status, nfs4.ErrNoSpc)
	id, sequence, _ = w.exchange(from(2, "other"))
	a := create(id, sequence, 0)
	a.Fore.MaxRequests, a.Fore.MaxResponseSizeCached = 64, 8<<10
	want(t, "slots of another host's session", w.CreateSession(a).Fore.MaxRequests, 64)
	w.locksAgree()
}

// TestPartiesShareOpens checks that a host which opens without end leaves
// stateids to others.
func TestPartiesShareOpens(t *testing.T) {
	w := newWorld(t)
	hog, other := w.clientFrom(1, "hog"), w.clientFrom(2, "other")
	w.use(hog.client.party, stateids, maxHoldings/2)
	want(t, "OPEN of the host with the most", w.openStatus(hog, "o", "f", 1, 0), nfs4.ErrDelay)
	want(t, "OPEN of another", w.openStatus(other, "o", "f", 1, 0), nfs4.OK)
	w.use(hog.client.party, stateids, -1)
	want(t, "OPEN after a CLOSE", w.openStatus(hog, "o", "f", 1, 0), nfs4.OK)
	w.use(hog.client.party, stateids, 1-maxHoldings/2)
	w.locksAgree()

	before := w.used[stateids]
	_, id := w.open(other, strings.Repeat("o", nfs4.OpaqueLimit), "g", nfs4.ShareBoth, 0, nil)
	want(t, "cost of a long name", w.used[stateids]-before, 1+nfs4.OpaqueLimit/ownerStep)
	w.Close(other, &id)
	want(t, "cost after CLOSE", w.used[stateids], before)
}
