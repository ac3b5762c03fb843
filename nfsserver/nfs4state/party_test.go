package nfs4state

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// exchangeFrom returns an EXCHANGE_ID that comes from a host.
func exchangeFrom(host byte, owner string) *Exchange {
	x := exchangeArgs(owner, 1, 0)
	x.Party = fairshare.PartyOfIP(netip.AddrFrom4([4]byte{192, 0, 2, host}))
	return x
}

// createFrom returns a CREATE_SESSION that comes from a host.
func createFrom(host byte, id uint64, sequence uint32) *Create {
	a := createArgs(id, sequence, 0)
	a.Party = exchangeFrom(host, "").Party
	return a
}

// clientFrom creates a client of a host that has nothing to reclaim, with a
// session.
func (w *testState) clientFrom(host byte, owner string) *Session {
	id, sequence, _ := w.mustExchange(exchangeFrom(host, owner))
	s := w.mustCreateSession(createFrom(host, id, sequence))
	w.ReclaimComplete(s)
	return s
}

// TestPartiesShareClients checks that a host which creates clients without
// limit leaves capacity for those of others.
func TestPartiesShareClients(t *testing.T) {
	w := newTestState(t)
	first := w.clientFrom(1, "first")
	made := 0
	for status := nfs4.OK; status == nfs4.OK; made++ {
		var id uint64
		var sequence uint32
		if id, sequence, _, status = w.ExchangeID(exchangeFrom(1, fmt.Sprint(made))); status == nfs4.OK {
			w.mustCreateSession(createFrom(1, id, sequence))
		}
	}
	want(t, "clients of one host", made, maxClients/2)
	for i := range maxClients / 8 {
		w.clientFrom(2, fmt.Sprint("of another", i))
	}
	w.checkLockCounts()
	want(t, "the first client's next call", w.beginNextCall(first, 0).New, true)
	_, _, _, status := w.ExchangeID(exchangeFrom(1, "one more"))
	want(t, "EXCHANGE_ID of the host with the most", status, nfs4.ErrDelay)

	w.advanceClock(testLease + 1)
	w.clientFrom(1, "one more") // replaces a silent client of the same host
	want(t, "clients of the other host", w.groupOf(exchangeFrom(2, "").Party).usage.get(clientRecords), maxClients/8)
}

// TestPartiesShareUnconfirmed checks that a host which only sends EXCHANGE_ID
// displaces its own records, and no other's.
func TestPartiesShareUnconfirmed(t *testing.T) {
	w := newTestState(t)
	id, sequence, _ := w.mustExchange(exchangeFrom(1, "a"))
	for i := range 3 * maxUnconfirmed {
		w.mustExchange(exchangeFrom(2, fmt.Sprint(i)))
	}
	w.mustCreateSession(createFrom(1, id, sequence))
	want(t, "records of the other host", w.groupOf(exchangeFrom(2, "").Party).usage.get(unconfirmedRecords), maxUnconfirmed/2)
	w.checkLockCounts()
}

// TestPartiesShareSessions checks that a host which creates sessions without
// limit leaves capacity, and memory for replies, to others.
func TestPartiesShareSessions(t *testing.T) {
	w := newTestState(t)
	made := 0
	for c := 0; made < maxAllSessions/2; c++ {
		id, sequence, _ := w.mustExchange(exchangeFrom(1, fmt.Sprint(c)))
		for range maxSessions {
			a := createFrom(1, id, sequence)
			a.Fore.MaxRequests, a.Fore.MaxResponseSizeCached = 64, 8<<10
			w.mustCreateSession(a)
			sequence++
			made++
		}
	}
	id, sequence, _ := w.mustExchange(exchangeFrom(1, "more"))
	want(t, "one more session of the host", w.CreateSession(createFrom(1, id, sequence)).Status, nfs4.ErrNoSpc)
	id, sequence, _ = w.mustExchange(exchangeFrom(2, "other"))
	a := createFrom(2, id, sequence)
	a.Fore.MaxRequests, a.Fore.MaxResponseSizeCached = 64, 8<<10
	want(t, "slots of another host's session", w.CreateSession(a).Fore.MaxRequests, 64)
	w.checkLockCounts()
}

// TestPartiesShareOpens checks that a host which opens without limit leaves
// stateids to others.
func TestPartiesShareOpens(t *testing.T) {
	w := newTestState(t)
	hog, other := w.clientFrom(1, "hog"), w.clientFrom(2, "other")
	w.addUsage(hog.client.group, stateIDs, maxHoldings/2)
	want(t, "OPEN of the host with the most", w.openStatus(hog, "o", "f", 1, 0), nfs4.ErrDelay)
	want(t, "OPEN of another", w.openStatus(other, "o", "f", 1, 0), nfs4.OK)
	w.addUsage(hog.client.group, stateIDs, -1)
	want(t, "OPEN after a CLOSE", w.openStatus(hog, "o", "f", 1, 0), nfs4.OK)
	w.addUsage(hog.client.group, stateIDs, 1-maxHoldings/2)
	w.checkLockCounts()

	before := w.usage.get(stateIDs)
	_, id := w.mustOpen(other, strings.Repeat("o", nfs4.OpaqueLimit), "g", nfs4.ShareBoth, 0, nil)
	want(t, "cost of a long name", w.usage.get(stateIDs)-before, 1+nfs4.OpaqueLimit/ownerStep)
	w.Close(other, &id)
	want(t, "cost after CLOSE", w.usage.get(stateIDs), before)
}
