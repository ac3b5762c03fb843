package discover

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/roce"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Description is what a server says to those who ask. Exports may change.
type Description struct {
	RDMA, TCP     netip.AddrPort
	Host, Version string
	Exports       []string
}

// Totals are what a server has done.
type Totals struct {
	Queries, Registered, Watched uint64 // requests that were granted
	Refused                      uint64 // those that were not, by a message
	Dropped                      uint64 // those that had no answer: senseless, or too many
	Notices, Updates             uint64 // sent
	Clients, Monitors            int    // that there are now
}

// streams are where a Responder has counters sent.
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
	changed         bool      // there is a client that was not saved
	renewed         bool      // there is one that has been renewed since
	saved           time.Time // the last time
	totals          Totals
}

// newResponder makes one that was started at a time.
func newResponder(boot uint64, since time.Time, describe func() Description, s streams) *Responder {
	return &Responder{
		boot: boot, since: since, describe: describe, streams: s, baker: newBaker(),
		unproven: rate{all: answersPerSecond, each: answersPerAddress},
		shown:    rate{all: provenPerSecond, each: provenPerAddress},
	}
}

// answer returns the answer to a message and the Q_Key that it needs, or nil. It is
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

// respond answers what is within the limits.
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

// tell says who this is, with the exports from one on.
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

// register notes a client, or forgets it.
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

// A letter is a message, and where it goes.
type letter struct {
	to   roce.Destination
	body []byte
}

// notices returns those that are to be sent now.
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

// unsaved returns the clients where others are there than the last time, or it is time
// to say how long they are, or nil.
func (r *Responder) unsaved(now time.Time) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.changed && !(r.renewed && now.Sub(r.saved) >= saveTime) {
		return nil
	}
	r.changed, r.renewed, r.saved = false, false, now
	return r.clients.save()
}

// stats returns the totals.
func (r *Responder) stats() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.totals
	t.Clients = len(r.clients.m)
	return t
}
