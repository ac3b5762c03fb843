package discover

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
)

// A Description is a server's reply to queries. Exports may change.
type Description struct {
	RDMA, TCP     netip.AddrPort
	Host, Version string
	Exports       []string
}

// Totals count a server's work.
type Totals struct {
	Queries, Registered, Watched uint64 // number of granted requests
	Refused                      uint64 // requests rejected with a message
	Dropped                      uint64 // requests without a reply: invalid, or too many
	Notices, Updates             uint64 // sent
	Clients, Monitors            int    // current numbers
}

// A streamStarter starts the streams of counters for a Responder.
type streamStarter interface {
	// setStream starts, renews or ends (Interval 0) a stream.
	setStream(from roce.Source, m watchBody, now time.Time) (watchingBody, Reason)
}

// A Responder answers requests. Its methods may be called by several goroutines.
type Responder struct {
	boot     uint64
	since    time.Time
	describe func() Description
	streams  streamStarter
	baker    *cookieIssuer

	mu               sync.Mutex
	unproven, proven rateLimit
	clients          clientTable
	changed          bool      // an unsaved change of the clients exists
	renewed          bool      // a client was renewed since the last save
	saved            time.Time // time of the last save
	totals           Totals
}

// newResponder returns a Responder that was started at the time since.
func newResponder(boot uint64, since time.Time, describe func() Description, s streamStarter) *Responder {
	return &Responder{
		boot: boot, since: since, describe: describe, streams: s, baker: newCookieIssuer(),
		unproven: rateLimit{perSecond: answersPerSecond, perAddress: answersPerAddress},
		proven:   rateLimit{perSecond: provenPerSecond, perAddress: provenPerAddress},
	}
}

// answerMessage returns the reply to a message and its Q_Key, or nil. The reply is
// no longer than the message.
func (r *Responder) answerMessage(b []byte, from roce.Source, now time.Time) (_ []byte, qkey uint32) {
	q, body, err := parseRequest(b)
	proven := err == nil && r.baker.isValid(q.Cookie, from, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := &r.unproven
	if proven {
		limit = &r.proven
	}
	if err != nil || len(b) < minRequest || !limit.allow(from.Addr, now) {
		r.totals.Dropped++
		return nil, 0
	}
	out := r.handleRequest(&q, &body, from, proven, min(len(b), maxMessage), now)
	if out == nil {
		r.totals.Dropped++
	}
	return out, q.QKey
}

// handleRequest handles a request that is within the rate limits.
func (r *Responder) handleRequest(q *Request, body *xdr.Reader, from roce.Source, proven bool, most int, now time.Time) []byte {
	switch q.Kind {
	case kindQuery:
		m, err := parseQuery(body)
		if err != nil {
			return nil
		}
		return r.describeServer(q, m, from, most, now)
	case kindRegister:
		m, err := parseRegister(body)
		if err != nil {
			return nil
		}
		if !proven {
			return r.rejectRequest(q, from, refusedCookie, now)
		}
		return r.updateClient(q, m, from, now)
	case kindWatch:
		m, err := parseWatch(body)
		if err != nil {
			return nil
		}
		if !proven {
			return r.rejectRequest(q, from, refusedCookie, now)
		}
		w, why := r.streams.setStream(from, m, now)
		if why != 0 {
			return r.rejectRequest(q, from, why, now)
		}
		r.totals.Watched++
		return w.AppendTo(r.appendReplyHeader(kindWatching, q.ID))
	}
	return nil
}

func (r *Responder) appendReplyHeader(k Kind, id uint64) []byte {
	p := replyHeader{Kind: k, ID: id, Boot: r.boot, Since: uint64(r.since.UnixMilli())}
	return p.AppendTo(make([]byte, 0, 128))
}

func (r *Responder) rejectRequest(q *Request, from roce.Source, why Reason, now time.Time) []byte {
	r.totals.Refused++
	return refusedBody{why, r.baker.newCookie(from, now)}.AppendTo(r.appendReplyHeader(kindRefused, q.ID))
}

// describeServer describes the server, with the exports from m.First on.
func (r *Responder) describeServer(q *Request, m queryBody, from roce.Source, most int, now time.Time) []byte {
	d := r.describe()
	first := min(m.First, uint32(len(d.Exports)))
	a := answerBody{
		Cookie: r.baker.newCookie(from, now), RDMA: d.RDMA, TCP: d.TCP, Host: d.Host, Version: d.Version,
		Total: uint32(len(d.Exports)), First: first, Exports: d.Exports[first:],
	}
	b, ok := a.AppendTo(r.appendReplyHeader(kindAnswer, q.ID), most)
	if !ok {
		return nil
	}
	r.totals.Queries++
	return b
}

// updateClient adds or removes a client.
func (r *Responder) updateClient(q *Request, m registerBody, from roce.Source, now time.Time) []byte {
	r.clients.removeExpired(now)
	if m.Leave {
		r.changed = r.changed || r.clients.clients[clientID{from.Addr, from.QP}] != nil
		delete(r.clients.clients, clientID{from.Addr, from.QP})
		r.totals.Registered++
		return registeredBody{}.AppendTo(r.appendReplyHeader(kindRegistered, q.ID))
	}
	news, ok := r.clients.addOrRenew(registeredClient{Addr: from.Addr, QP: from.QP, QKey: q.QKey, Token: m.Token, Until: now.Add(registrationTime)})
	if !ok {
		return r.rejectRequest(q, from, refusedFull, now)
	}
	r.changed, r.renewed = r.changed || news, true
	r.totals.Registered++
	return registeredBody{uint32(registrationTime / time.Second)}.AppendTo(r.appendReplyHeader(kindRegistered, q.ID))
}

// An outgoingMessage is a message with its destination.
type outgoingMessage struct {
	to   roce.Destination
	body []byte
}

// dueNotices returns the notices that must be sent now.
func (r *Responder) dueNotices(now time.Time) (all []outgoingMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients.removeExpired(now)
	for _, c := range r.clients.dueNotices(now.Sub(r.since)) {
		all = append(all, outgoingMessage{c.queuePair(), noticeBody{c.Token}.AppendTo(r.appendReplyHeader(kindNotice, 0))})
	}
	r.totals.Notices += uint64(len(all))
	return all
}

// encodeUnsaved returns the encoded clients if changes or renewals since the last
// save must be saved now; otherwise nil.
func (r *Responder) encodeUnsaved(now time.Time) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := now.Sub(r.saved)
	if !(r.changed && since >= newsTime) && !(r.renewed && since >= saveTime) {
		return nil
	}
	r.changed, r.renewed, r.saved = false, false, now
	return r.clients.encode()
}

// markUnsaved records that the clients that encodeUnsaved returned could not be
// saved.
func (r *Responder) markUnsaved() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = true
}

// currentTotals returns the totals.
func (r *Responder) currentTotals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.totals
	t.Clients = len(r.clients.clients)
	return t
}
