package discover

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/roce"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A client is registered for notices of restarts.
type client struct {
	Addr  netip.Addr `json:"addr"`
	QP    uint32     `json:"qp"`
	QKey  uint32     `json:"q_key"`
	Token uint64     `json:"token"`
	Until time.Time  `json:"until"`

	heard bool // it has registered since this start
	told  int  // notices sent since then
}

// place identifies a client.
type place struct {
	addr netip.Addr
	qp   uint32
}

// A clientTable holds the clients.
type clientTable struct{ m map[place]*client }

// add adds or renews a client, and reports whether the client is new or
// changed. A host that has used up its share loses its oldest registration,
// because killed mounts do not leave. The same holds for a party. ok is false
// if the table is full.
func (t *clientTable) add(c client) (news, ok bool) {
	at := place{c.Addr, c.QP}
	was := t.m[at]
	if was == nil {
		t.trim(maxPerAddress, func(a netip.Addr) bool { return a == c.Addr })
		party := fairshare.PartyOfIP(c.Addr)
		t.trim(maxClients/partyPart, func(a netip.Addr) bool { return fairshare.PartyOfIP(a) == party })
		if len(t.m) >= maxClients {
			return false, false
		}
		if t.m == nil {
			t.m = make(map[place]*client)
		}
	}
	c.heard = true
	t.m[at] = &c
	return was == nil || was.QKey != c.QKey || was.Token != c.Token, true
}

// trim makes room for one client at the selected addresses: if most are there,
// the client whose registration is oldest goes.
func (t *clientTable) trim(most int, at func(netip.Addr) bool) {
	var oldest place
	n := 0
	for p, c := range t.m {
		if !at(p.addr) {
			continue
		}
		if n++; n == 1 || c.Until.Before(t.m[oldest].Until) {
			oldest = p
		}
	}
	if n >= most {
		delete(t.m, oldest)
	}
}

// expire removes clients whose time is over.
func (t *clientTable) expire(now time.Time) {
	for at, c := range t.m {
		if !now.Before(c.Until) {
			delete(t.m, at)
		}
	}
}

// due returns the clients that must get a notice now, since being the time from
// the start.
func (t *clientTable) due(since time.Duration) (all []*client) {
	for _, c := range t.m {
		if !c.heard && c.told < len(noticeTimes) && since >= noticeTimes[c.told] {
			c.told++
			all = append(all, c)
		}
	}
	return all
}

// save returns the clients in a form that load takes.
func (t *clientTable) save() []byte {
	list := make([]*client, 0, len(t.m))
	for _, c := range t.m {
		list = append(list, c)
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(err) // every field has a JSON form
	}
	return b
}

// load replaces the clients by those in b, the result of save. On an error, no
// client of b is taken.
func (t *clientTable) load(b []byte, now time.Time) error {
	var list []client
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("discover: saved clients: %w", err)
	}
	m := make(map[place]*client)
	for i := range list {
		c := &list[i]
		if !c.Addr.IsValid() || c.QP >= packet.MulticastQP || len(m) >= maxClients {
			return fmt.Errorf("discover: saved clients: entry %d is not an address", i)
		}
		if until := now.Add(Lifetime); c.Until.After(until) {
			c.Until = until // the clock was wrong
		}
		m[place{c.Addr, c.QP}] = c
	}
	t.m = m
	t.expire(now)
	return nil
}

// destination returns the client's queue pair.
func (c *client) destination() roce.Destination {
	return roce.Destination{Address: roce.Address{Addr: c.Addr}, QP: c.QP, QKey: c.QKey}
}
