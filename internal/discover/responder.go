package discover

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/roce"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Description is a server's answer to queries. Exports may change.
type Description struct {
	RDMA, TCP     netip.AddrPort
	Host, Version string
	Exports       []string
}

// Totals count a server's work.
type Totals struct {
	Queries, Registered, Watched uint64 // granted requests
	Refused                      uint64 // requests refused by a message
	Dropped                      uint64 // requests without an answer: invalid, or too many
	Notices, Updates             uint64 // sent
	Clients, Monitors            int    // current number
}

// streams are the streams of counters that a Responder starts.
type streams interface {
	// watch begins, renews or ends (Interval 0) a stream.
	watch(from roce.Source, m Watch, now time.Time) (Watching, Reason)
}

// A Responder answers requests. Its methods may be called by several goroutines.
type Responder struct {
	boot     uint64
	since    time.Time
	describe func() Description
	streams  streams
	baker    *baker

	mu              sync.Mutex
	unproven, shown rate
	clients         clientTable
	changed         bool      // some client was not saved
	renewed         bool      // some client was renewed since
	saved           time.Time // time of the last save
	totals          Totals
}

// newResponder makes a Responder that was started at the time since.
func newResponder(boot uint64, since time.Time, describe func() Description, s streams) *Responder {
	return &Responder{
		boot: boot, since: since, describe: describe, streams: s, baker: newBaker(),
		unproven: rate{all: answersPerSecond, each: answersPerAddress},
		shown:    rate{all: provenPerSecond, each: provenPerAddress},
	}
}

// answer returns the answer to a message and its Q_Key, or nil. The answer is
// no longer than the message.
func (r *Responder) answer(b []byte, from roce.Source, now time.Time) (_ []byte, qkey uint32) {
	q, body, err := ParseRequest(b)
	proven := err == nil && r.baker.good(q.Cookie, from, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := &r.unproven
	if proven {
		limit = &r.shown
	}
	if err != nil || len(b) < minRequest || !limit.allow(from.Addr, now) {
		r.totals.Dropped++
		return nil, 0
	}
	out := r.respond(&q, &body, from, proven, min(len(b), maxMessage), now)
	if out == nil {
		r.totals.Dropped++
	}
	return out, q.QKey
}

// respond answers a request within the limits.
func (r *Responder) respond(q *Request, body *xdr.Reader, from roce.Source, proven bool, most int, now time.Time) []byte {
	switch q.Kind {
	case KindQuery:
		m, err := parseQuery(body)
		if err != nil {
			return nil
		}
		return r.tell(q, m, from, most, now)
	case KindRegister:
		m, err := parseRegister(body)
		if err != nil {
			return nil
		}
		if !proven {
			return r.refuse(q, from, RefusedCookie, now)
		}
		return r.register(q, m, from, now)
	case KindWatch:
		m, err := parseWatch(body)
		if err != nil {
			return nil
		}
		if !proven {
			return r.refuse(q, from, RefusedCookie, now)
		}
		w, why := r.streams.watch(from, m, now)
		if why != 0 {
			return r.refuse(q, from, why, now)
		}
		r.totals.Watched++
		return w.AppendTo(r.reply(KindWatching, q.ID))
	}
	return nil
}

func (r *Responder) reply(k Kind, id uint64) []byte {
	p := Reply{Kind: k, ID: id, Boot: r.boot, Since: uint64(r.since.UnixMilli())}
	return p.AppendTo(make([]byte, 0, 128))
}

func (r *Responder) refuse(q *Request, from roce.Source, why Reason, now time.Time) []byte {
	r.totals.Refused++
	return Refused{why, r.baker.cookie(from, now)}.AppendTo(r.reply(KindRefused, q.ID))
}

// tell describes the server, with the exports from m.First on.
func (r *Responder) tell(q *Request, m Query, from roce.Source, most int, now time.Time) []byte {
	d := r.describe()
	first := min(m.First, uint32(len(d.Exports)))
	a := Answer{
		Cookie: r.baker.cookie(from, now), RDMA: d.RDMA, TCP: d.TCP, Host: d.Host, Version: d.Version,
		Total: uint32(len(d.Exports)), First: first, Exports: d.Exports[first:],
	}
	b, ok := a.AppendTo(r.reply(KindAnswer, q.ID), most)
	if !ok {
		return nil
	}
	r.totals.Queries++
	return b
}

// register adds or removes a client.
func (r *Responder) register(q *Request, m Register, from roce.Source, now time.Time) []byte {
	r.clients.expire(now)
	if m.Leave {
		r.changed = r.changed || r.clients.m[place{from.Addr, from.QP}] != nil
		delete(r.clients.m, place{from.Addr, from.QP})
		r.totals.Registered++
		return Registered{}.AppendTo(r.reply(KindRegistered, q.ID))
	}
	news, ok := r.clients.add(client{Addr: from.Addr, QP: from.QP, QKey: q.QKey, Token: m.Token, Until: now.Add(Lifetime)})
	if !ok {
		return r.refuse(q, from, RefusedRoom, now)
	}
	r.changed, r.renewed = r.changed || news, true
	r.totals.Registered++
	return Registered{uint32(Lifetime / time.Second)}.AppendTo(r.reply(KindRegistered, q.ID))
}

// A letter is a message with its destination.
type letter struct {
	to   roce.Destination
	body []byte
}

// notices returns the notices that must be sent now.
func (r *Responder) notices(now time.Time) (all []letter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients.expire(now)
	for _, c := range r.clients.due(now.Sub(r.since)) {
		all = append(all, letter{c.destination(), Notice{c.Token}.AppendTo(r.reply(KindNotice, 0))})
	}
	r.totals.Notices += uint64(len(all))
	return all
}

// unsaved returns the clients if changes or renewals since the last save are due
// to be saved; otherwise nil.
func (r *Responder) unsaved(now time.Time) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := now.Sub(r.saved)
	if !(r.changed && since >= newsTime) && !(r.renewed && since >= saveTime) {
		return nil
	}
	r.changed, r.renewed, r.saved = false, false, now
	return r.clients.save()
}

// saveAgain says that the clients that unsaved returned could not be saved.
func (r *Responder) saveAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = true
}

// stats returns the totals.
func (r *Responder) stats() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.totals
	t.Clients = len(r.clients.m)
	return t
}
