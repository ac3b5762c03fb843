package discover

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A registeredClient is registered for restart notices.
type registeredClient struct {
	Addr  netip.Addr `json:"addr"`
	QP    uint32     `json:"qp"`
	QKey  uint32     `json:"q_key"`
	Token uint64     `json:"token"`
	Until time.Time  `json:"until"`

	hasRegistered bool // it has registered since this start
	noticesSent   int  // number of notices sent since this start
}

// clientID identifies a client.
type clientID struct {
	addr netip.Addr
	qp   uint32
}

// A clientTable holds the registered clients.
type clientTable struct {
	clients map[clientID]*registeredClient
}

// addOrRenew adds or renews a client, and reports whether the client is new or
// changed. A host that has used up its share loses its oldest registration, because
// killed mounts do not unregister. The same applies to a client group (fairshare).
// ok is false if the table is full.
func (t *clientTable) addOrRenew(c registeredClient) (news, ok bool) {
	at := clientID{c.Addr, c.QP}
	was := t.clients[at]
	if was == nil {
		t.dropOldest(maxPerAddress, func(a netip.Addr) bool { return a == c.Addr })
		party := fairshare.PartyOfIP(c.Addr)
		t.dropOldest(maxClients/groupShareDivisor, func(a netip.Addr) bool { return fairshare.PartyOfIP(a) == party })
		if len(t.clients) >= maxClients {
			return false, false
		}
		if t.clients == nil {
			t.clients = make(map[clientID]*registeredClient)
		}
	}
	c.hasRegistered = true
	t.clients[at] = &c
	return was == nil || was.QKey != c.QKey || was.Token != c.Token, true
}

// dropOldest makes space for one client at the selected addresses: if most are
// there, it removes the client with the oldest registration.
func (t *clientTable) dropOldest(most int, at func(netip.Addr) bool) {
	var oldest clientID
	n := 0
	for p, c := range t.clients {
		if !at(p.addr) {
			continue
		}
		if n++; n == 1 || c.Until.Before(t.clients[oldest].Until) {
			oldest = p
		}
	}
	if n >= most {
		delete(t.clients, oldest)
	}
}

// removeExpired removes clients whose registration has expired.
func (t *clientTable) removeExpired(now time.Time) {
	for at, c := range t.clients {
		if !now.Before(c.Until) {
			delete(t.clients, at)
		}
	}
}

// dueNotices returns the clients that must get a notice now. since is the time
// since the start.
func (t *clientTable) dueNotices(since time.Duration) (all []*registeredClient) {
	for _, c := range t.clients {
		if !c.hasRegistered && c.noticesSent < len(noticeTimes) && since >= noticeTimes[c.noticesSent] {
			c.noticesSent++
			all = append(all, c)
		}
	}
	return all
}

// encode returns the clients in the form that decode reads.
func (t *clientTable) encode() []byte {
	list := make([]*registeredClient, 0, len(t.clients))
	for _, c := range t.clients {
		list = append(list, c)
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(err) // every field has a JSON form
	}
	return b
}

// decode replaces the clients with those in b, a result of encode. On an error, the
// clients stay unchanged.
func (t *clientTable) decode(b []byte, now time.Time) error {
	var list []registeredClient
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("discover: saved clients: %w", err)
	}
	m := make(map[clientID]*registeredClient)
	for i := range list {
		c := &list[i]
		if !c.Addr.IsValid() || c.QP >= packet.MulticastQP || len(m) >= maxClients {
			return fmt.Errorf("discover: saved clients: entry %d is not an address", i)
		}
		if until := now.Add(registrationTime); c.Until.After(until) {
			c.Until = until // the clock was wrong
		}
		m[clientID{c.Addr, c.QP}] = c
	}
	t.clients = m
	t.removeExpired(now)
	return nil
}

// queuePair returns the client's queue pair.
func (c *registeredClient) queuePair() roce.Destination {
	return roce.Destination{Address: roce.Address{Addr: c.Addr}, QP: c.QP, QKey: c.QKey}
}
