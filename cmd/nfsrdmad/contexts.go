package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/gss/krb5"
)

// A kerberosDoc is the state of Kerberos in status.
type kerberosDoc struct {
	Keytab    string       `json:"keytab"`
	Contexts  int          `json:"contexts"` // held now
	Made      uint64       `json:"made"`     // so far, as all below
	Evicted   uint64       `json:"evicted"`  // to make room
	Expired   uint64       `json:"expired"`
	Destroyed uint64       `json:"destroyed"` // by their clients
	Accepting float64      `json:"accept_seconds"`
	Refused   []refusalDoc `json:"refused"` // tokens, by reason
	Calls     flavorsDoc   `json:"calls"`
	Unknown   uint64       `json:"unknown_contexts"` // calls, as the next three
	BadMICs   uint64       `json:"bad_verifiers"`
	BadBodies uint64       `json:"bad_arguments"`
	Dropped   uint64       `json:"dropped"`      // sequence numbers seen before or too old
	List      []contextDoc `json:"context_list"` // up to maxListed
}

type refusalDoc struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// flavorsDoc counts calls by flavour.
type flavorsDoc struct {
	Krb5  uint64 `json:"krb5"`
	Krb5i uint64 `json:"krb5i"`
	Krb5p uint64 `json:"krb5p"`
}

type contextDoc struct {
	Principal     string    `json:"principal"`
	Client        string    `json:"client"`    // address or network from which the context was made
	UID           int64     `json:"uid"`       // of the last call; -1: nobody
	Mechanism     string    `json:"mechanism"` // with the encryption type
	Ends          time.Time `json:"ends"`      // with the ticket
	CallsUnderWay int       `json:"calls_under_way"`
}

// lookAtContexts returns the state of Kerberos, or nil while no export takes it.
func (p *operations) lookAtContexts() *kerberosDoc {
	if p.mechanism.off() {
		return nil
	}
	s := p.security.Stats()
	d := &kerberosDoc{
		Keytab: p.mechanism.keytab, Contexts: s.Contexts, Made: s.Made, Evicted: s.Evicted, Expired: s.Expired, Destroyed: s.Destroyed,
		Accepting: s.Accepting.Seconds(), Refused: refusals(s.RefusedBy), Calls: flavorsDoc{s.Calls[0], s.Calls[1], s.Calls[2]},
		Unknown: s.Unknown, BadMICs: s.BadMICs, BadBodies: s.BadBodies, Dropped: s.Dropped, List: []contextDoc{},
	}
	list, _ := p.security.Contexts(maxListed)
	for i := range list {
		c := &list[i]
		one := contextDoc{
			Principal: printable(c.Principal), Client: c.Client, UID: -1, Mechanism: c.Mechanism, Ends: c.Expires, CallsUnderWay: c.Calls,
		}
		if c.Mapped {
			one.UID = int64(c.UID)
		}
		d.List = append(d.List, one)
	}
	return d
}

// refusals counts by reason, the most frequent first. Numbers of the mechanism may
// share a reason.
func refusals(counts map[uint32]uint64) []refusalDoc {
	sum := make(map[string]uint64)
	for minor, n := range counts {
		sum[krb5.Reason(minor)] += n
	}
	list := []refusalDoc{}
	for _, reason := range slices.Sorted(maps.Keys(sum)) {
		list = append(list, refusalDoc{reason, sum[reason]})
	}
	slices.SortStableFunc(list, func(a, b refusalDoc) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// kerberos prints the counters.
func (p *page) kerberos(d *kerberosDoc) {
	p.row("kerberos", fmt.Sprintf("%d contexts of %d so far; calls: krb5 %d, krb5i %d, krb5p %d", d.Contexts, d.Made, d.Calls.Krb5, d.Calls.Krb5i, d.Calls.Krb5p))
	var refused []string
	for _, r := range d.Refused {
		refused = append(refused, fmt.Sprintf("%s %d", r.Reason, r.Count))
	}
	if len(refused) > 0 {
		p.row("", "contexts refused, by reason: "+strings.Join(refused, ", "))
	}
	var faults []string
	for _, n := range []struct {
		count uint64
		what  string
	}{
		{d.Expired, "contexts expired"},
		{d.Evicted, "evicted"},
		{d.Unknown, "calls of unknown contexts"},
		{d.BadMICs, "with a wrong signature"},
		{d.BadBodies, "with wrong arguments"},
		{d.Dropped, "dropped as old or repeated"},
	} {
		if n.count > 0 {
			faults = append(faults, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	if len(faults) > 0 {
		p.row("", strings.Join(faults, ", "))
	}
}

// contexts prints the list of contexts.
func (p *page) contexts(d *kerberosDoc) {
	p.table("SECURITY CONTEXTS")
	if len(d.List) == 0 {
		p.row("none")
		return
	}
	p.row("PRINCIPAL", "USER", "CLIENT", "WITH", "ENDS IN", "NOW")
	for i := range d.List {
		c := &d.List[i]
		user := "nobody"
		if c.UID >= 0 {
			user = fmt.Sprint(c.UID)
		}
		p.row(short60(c.Principal), user, c.Client, c.Mechanism, span(c.Ends.Sub(p.now)), c.CallsUnderWay)
	}
	if rest := d.Contexts - len(d.List); rest > 0 {
		p.row(fmt.Sprintf("and %d more", rest))
	}
}

// perKerberos is a metric that has no value while no export takes Kerberos.
func perKerberos(kind func(string, string, []string, func(*sight, emitter)) metric, name, help string, labels []string, each func(*kerberosDoc, emitter)) metric {
	return kind(name, help, labels, func(s *sight, emit emitter) {
		if s.Kerberos != nil {
			each(s.Kerberos, emit)
		}
	})
}

var kerberosMetrics = []metric{
	perKerberos(gauge, "security_contexts", "Security contexts of clients.", none, func(d *kerberosDoc, emit emitter) { emit(float64(d.Contexts)) }),
	perKerberos(counter, "security_contexts_total", "Security contexts so far: made, and of these evicted to make room, expired some time after their end, and destroyed by their clients.",
		[]string{"event"}, func(d *kerberosDoc, emit emitter) {
			emit(float64(d.Made), "made")
			emit(float64(d.Evicted), "evicted")
			emit(float64(d.Expired), "expired")
			emit(float64(d.Destroyed), "destroyed")
		}),
	perKerberos(counter, "security_refused_total", "Refused attempts to make a security context.", []string{"reason"}, func(d *kerberosDoc, emit emitter) {
		for _, r := range d.Refused {
			emit(float64(r.Count), r.Reason)
		}
	}),
	perKerberos(counter, "security_accept_seconds_total", "Time spent on attempts to make a security context.", none, func(d *kerberosDoc, emit emitter) { emit(d.Accepting) }),
	perKerberos(counter, "security_calls_total", "Calls whose caller was verified, by flavour.", []string{"flavor"}, func(d *kerberosDoc, emit emitter) {
		emit(float64(d.Calls.Krb5), "krb5")
		emit(float64(d.Calls.Krb5i), "krb5i")
		emit(float64(d.Calls.Krb5p), "krb5p")
	}),
	perKerberos(counter, "security_faults_total", "Calls that were refused before their program saw them.", []string{"fault"}, func(d *kerberosDoc, emit emitter) {
		emit(float64(d.Unknown), "unknown context")
		emit(float64(d.BadMICs), "signature")
		emit(float64(d.BadBodies), "arguments")
		emit(float64(d.Dropped), "sequence number")
	}),
}
