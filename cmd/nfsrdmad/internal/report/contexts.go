package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
)

// A kerberosDoc is status's Kerberos part.
type kerberosDoc struct {
	Keytab    string           `json:"keytab"`
	Contexts  int              `json:"contexts"` // current number
	Made      uint64           `json:"made"`     // since the start, like all counts below
	Evicted   uint64           `json:"evicted"`  // because the table was full
	Expired   uint64           `json:"expired"`
	Destroyed uint64           `json:"destroyed"` // destroyed by their clients
	Accepting float64          `json:"accept_seconds"`
	Refused   []reasonCountDoc `json:"refused"` // rejected tokens, by reason
	Calls     flavorsDoc       `json:"calls"`
	Unknown   uint64           `json:"unknown_contexts"` // counts calls, like the next three
	BadMICs   uint64           `json:"bad_verifiers"`
	BadBodies uint64           `json:"bad_arguments"`
	Dropped   uint64           `json:"dropped"`      // because their sequence numbers were repeated or too old
	List      []contextDoc     `json:"context_list"` // up to MaxListed
}

type reasonCountDoc struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// flavorsDoc counts calls by flavor.
type flavorsDoc struct {
	Krb5  uint64 `json:"krb5"`
	Krb5i uint64 `json:"krb5i"`
	Krb5p uint64 `json:"krb5p"`
}

type contextDoc struct {
	Principal     string    `json:"principal"`
	Client        string    `json:"client"`    // address or network that created the context
	UID           int64     `json:"uid"`       // the last call's user; -1: nobody
	Mechanism     string    `json:"mechanism"` // includes the encryption type
	Ends          time.Time `json:"ends"`      // expiry time, equal to the ticket's
	CallsUnderWay int       `json:"calls_under_way"`
}

// collectKerberos describes Kerberos, or returns nil while no export uses it.
func (src *Source) collectKerberos() *kerberosDoc {
	if !src.Kerberos {
		return nil
	}
	s := src.Security.Stats()
	d := &kerberosDoc{
		Keytab: src.Keytab, Contexts: s.Contexts, Made: s.Made, Evicted: s.Evicted, Expired: s.Expired, Destroyed: s.Destroyed,
		Accepting: s.Accepting.Seconds(), Refused: countReasons(s.RefusedBy), Calls: flavorsDoc{s.Calls[0], s.Calls[1], s.Calls[2]},
		Unknown: s.Unknown, BadMICs: s.BadMICs, BadBodies: s.BadBodies, Dropped: s.Dropped, List: []contextDoc{},
	}
	list, _ := src.Security.Contexts(MaxListed)
	for i := range list {
		c := &list[i]
		one := contextDoc{
			Principal: quoteUnprintable(c.Principal), Client: c.Client, UID: -1, Mechanism: c.Mechanism, Ends: c.Expires, CallsUnderWay: c.Calls,
		}
		if c.Mapped {
			one.UID = int64(c.UID)
		}
		d.List = append(d.List, one)
	}
	return d
}

// countReasons sums counts by reason, the most frequent first. Several minor codes may
// have the same reason.
func countReasons(counts map[uint32]uint64) []reasonCountDoc {
	sum := make(map[string]uint64)
	for minor, n := range counts {
		sum[krb5.Reason(minor)] += n
	}
	list := []reasonCountDoc{}
	for _, reason := range slices.Sorted(maps.Keys(sum)) {
		list = append(list, reasonCountDoc{reason, sum[reason]})
	}
	slices.SortStableFunc(list, func(a, b reasonCountDoc) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// addKerberos adds the counters.
func (p *textPage) addKerberos(d *kerberosDoc) {
	p.addRow("kerberos", fmt.Sprintf("%d contexts now, %d in total; calls: krb5 %d, krb5i %d, krb5p %d", d.Contexts, d.Made, d.Calls.Krb5, d.Calls.Krb5i, d.Calls.Krb5p))
	var refused []string
	for _, r := range d.Refused {
		refused = append(refused, fmt.Sprintf("%s %d", r.Reason, r.Count))
	}
	if len(refused) > 0 {
		p.addRow("", "contexts rejected, by reason: "+strings.Join(refused, ", "))
	}
	var faults []string
	for _, n := range []struct {
		count uint64
		what  string
	}{
		{d.Expired, "contexts expired"},
		{d.Evicted, "evicted"},
		{d.Unknown, "calls with unknown contexts"},
		{d.BadMICs, "with a wrong signature"},
		{d.BadBodies, "with wrong arguments"},
		{d.Dropped, "dropped as old or repeated"},
	} {
		if n.count > 0 {
			faults = append(faults, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	if len(faults) > 0 {
		p.addRow("", strings.Join(faults, ", "))
	}
}

// addContexts lists the contexts.
func (p *textPage) addContexts(d *kerberosDoc) {
	p.startTable("SECURITY CONTEXTS")
	if len(d.List) == 0 {
		p.addRow("none")
		return
	}
	p.addRow("PRINCIPAL", "USER", "CLIENT", "WITH", "ENDS IN", "NOW")
	for i := range d.List {
		c := &d.List[i]
		user := "nobody"
		if c.UID >= 0 {
			user = fmt.Sprint(c.UID)
		}
		p.addRow(truncateName(c.Principal), user, c.Client, c.Mechanism, formatSpan(c.Ends.Sub(p.now)), c.CallsUnderWay)
	}
	if rest := d.Contexts - len(d.List); rest > 0 {
		p.addRow(fmt.Sprintf("and %d more", rest))
	}
}

// kerberosMetric returns a metric that has no value while no export uses Kerberos.
func kerberosMetric(kind func(string, string, []string, func(*scrapeData, emitFunc)) metric, name, help string, labels []string, each func(*kerberosDoc, emitFunc)) metric {
	return kind(name, help, labels, func(s *scrapeData, emit emitFunc) {
		if s.Kerberos != nil {
			each(s.Kerberos, emit)
		}
	})
}

var kerberosMetrics = []metric{
	kerberosMetric(newGauge, "security_contexts", "Security contexts of clients.", noLabels, func(d *kerberosDoc, emit emitFunc) { emit(float64(d.Contexts)) }),
	kerberosMetric(newCounter, "security_contexts_total", "Security contexts since the start: created, and among these evicted because the table was full, removed after they expired, and destroyed by their clients.",
		[]string{"event"}, func(d *kerberosDoc, emit emitFunc) {
			emit(float64(d.Made), "made")
			emit(float64(d.Evicted), "evicted")
			emit(float64(d.Expired), "expired")
			emit(float64(d.Destroyed), "destroyed")
		}),
	kerberosMetric(newCounter, "security_refused_total", "Rejected attempts to create a security context.", []string{"reason"}, func(d *kerberosDoc, emit emitFunc) {
		for _, r := range d.Refused {
			emit(float64(r.Count), r.Reason)
		}
	}),
	kerberosMetric(newCounter, "security_accept_seconds_total", "Time spent on attempts to create a security context.", noLabels, func(d *kerberosDoc, emit emitFunc) { emit(d.Accepting) }),
	kerberosMetric(newCounter, "security_calls_total", "Calls whose caller was verified, by flavor.", []string{"flavor"}, func(d *kerberosDoc, emit emitFunc) {
		emit(float64(d.Calls.Krb5), "krb5")
		emit(float64(d.Calls.Krb5i), "krb5i")
		emit(float64(d.Calls.Krb5p), "krb5p")
	}),
	kerberosMetric(newCounter, "security_faults_total", "Calls that were rejected before they reached their program.", []string{"fault"}, func(d *kerberosDoc, emit emitFunc) {
		emit(float64(d.Unknown), "unknown context")
		emit(float64(d.BadMICs), "signature")
		emit(float64(d.BadBodies), "arguments")
		emit(float64(d.Dropped), "sequence number")
	}),
}
