package discover

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/roce"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A client is one that is told of a restart.
type client struct {
	Addr  netip.Addr `json:"addr"`
	QP    uint32     `json:"qp"`
	QKey  uint32     `json:"q_key"`
	Token uint64     `json:"token"`
	Until time.Time  `json:"until"`

	heard bool // it has registered since this start
	told  int  // notices sent since then
}

// place is what tells clients apart.
type place struct {
	addr netip.Addr
	qp   uint32
}

// A clientTable has the clients.
type clientTable struct{ m map[place]*client }

// add takes a client, or renews it. A host that has its part loses what it
// registered longest ago: mounts that were killed say nothing. It is false where the
// table is full.
func (t *clientTable) add(c client) bool {
	at := place{c.Addr, c.QP}
	if t.m[at] == nil {
		if n, oldest := t.of(c.Addr); n >= maxPerAddress {
			delete(t.m, oldest)
		}
		if len(t.m) >= maxClients {
			return false
		}
		if t.m == nil {
			t.m = make(map[place]*client)
		}
	}
	c.heard = true
	t.m[at] = &c
	return true
}

// of counts the clients of a host, and returns the one that has registered longest
// ago.
func (t *clientTable) of(a netip.Addr) (n int, oldest place) {
	for at, c := range t.m {
		if at.addr != a {
			continue
		}
		if n++; n == 1 || c.Until.Before(t.m[oldest].Until) {
			oldest = at
		}
	}
	return n, oldest
}

// expire forgets those whose time is over.
func (t *clientTable) expire(now time.Time) {
	for at, c := range t.m {
		if !now.Before(c.Until) {
			delete(t.m, at)
		}
	}
}

// due returns those that a notice is to be sent to now, when so long has passed
// since the start.
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
		panic(err) // there is nothing in it that has no JSON
	}
	return b
}

// load takes what save has returned: none of it where something is wrong.
func (t *clientTable) load(b []byte, now time.Time) error {
	var list []client
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("discover: the clients of the last time: %w", err)
	}
	m := make(map[place]*client)
	for i := range list {
		c := &list[i]
		if !c.Addr.IsValid() || c.QP >= packet.MulticastQP || len(m) >= maxClients {
			return fmt.Errorf("discover: the clients of the last time: number %d is none", i)
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

// destination is where the client hears.
func (c *client) destination() roce.Destination {
	return roce.Destination{Address: roce.Address{Addr: c.Addr}, QP: c.QP, QKey: c.QKey}
}
