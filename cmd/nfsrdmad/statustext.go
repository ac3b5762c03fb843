package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// print prints status as text.
func (d *statusDoc) print(w io.Writer, now time.Time) error {
	p := &page{now: now}
	p.tab = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	p.daemon(d)
	if d.Grants != nil {
		p.row("delegation", d.Grants)
	}
	if v := d.NFS4; v != nil {
		p.row("version 4", fmt.Sprintf("%d clients, %d sessions, %d opens, %d locks, %d delegations (%d for writing); slots for %s of replies, of %s",
			v.Clients-v.Unconfirmed, v.Sessions, v.Opens, v.Locks, v.Delegations, v.Writes, size(uint64(v.ReplyBytes)), size(uint64(v.ReplyLimit))))
		if v.Grace > 0 {
			p.row("grace", fmt.Sprintf("%d clients may reclaim what they held before the restart, for %s at most", v.Grace, span(time.Duration(v.GraceLeft*float64(time.Second)))))
		}
		if v.Failing {
			p.row("clients", "cannot open or lock files: the list of clients in the state directory cannot be written")
		}
	}
	if d.Kerberos != nil {
		p.kerberos(d.Kerberos)
	}
	if d.TLS != nil {
		p.tls(d.TLS)
	}
	for i := range d.Transports {
		p.transport(&d.Transports[i])
	}
	if v := d.Trace; v != nil {
		p.row("tracing", fmt.Sprintf("%d spans sent, %d waiting, %d dropped because too many waited, %d not taken by the collector", v.Sent, v.Waiting, v.Dropped, v.Failed))
	}
	if v := d.Discovery; v != nil {
		p.row("discover", fmt.Sprintf("%s, boot %s, %d clients, %d monitors; %d queries answered, %d refused, %d dropped; %d notices, %d updates sent",
			v.Address, v.Boot, v.Clients, v.Monitors, v.Queries, v.Refused, v.Dropped, v.Notices, v.Updates))
	}
	p.exports(d.Exports)
	p.connections(d.Connections)
	if d.Kerberos != nil {
		p.contexts(d.Kerberos)
	}
	p.procedures(d.Procedures)
	p.operations(d.Operations)
	p.tab.Flush() // into memory
	// Remove blanks at the ends of lines.
	for line := range strings.Lines(p.text.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// A page is a text with tables.
type page struct {
	text strings.Builder
	tab  *tabwriter.Writer
	now  time.Time
}

// row adds a line of cells.
func (p *page) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(p.tab, "\t")
		}
		fmt.Fprint(p.tab, c)
	}
	fmt.Fprintln(p.tab)
}

// table begins a new table with columns of its own.
func (p *page) table(title string) {
	p.tab.Flush()
	fmt.Fprintf(&p.text, "\n%s\n", title)
}

func (p *page) daemon(d *statusDoc) {
	g, r := &d.Daemon, &d.ReplayCache
	p.row("nfsrdmad "+g.Version, fmt.Sprintf("%s since %s (%s), process %d, user %d",
		g.State, g.Since.Local().Format(time.DateTime), span(p.now.Sub(g.Since)), g.PID, g.UID))
	p.row("replay cache", fmt.Sprintf("%d replies in %s; %d calls executed once, %d retries answered, %d replies dropped early",
		r.Replies, size(uint64(r.Bytes)), r.Executed, r.Replayed+r.Joined, r.Forgotten))
}

func (p *page) transport(t *transportDoc) {
	c := &t.Connections
	line := fmt.Sprintf("%s, %d connections of %d so far", t.Address, c.Now, c.Total)
	for _, n := range []struct {
		count uint64
		what  string
	}{{c.Refused, "refused"}, {c.Replaced, "replaced"}, {c.Stalled, "stalled"}} {
		if n.count > 0 {
			line += fmt.Sprintf(", %d %s", n.count, n.what)
		}
	}
	p.row(t.Name, line)
	var memory []string
	for _, m := range t.Memory {
		memory = append(memory, fmt.Sprintf("%s of %s for %s", size(uint64(m.InUse)), size(uint64(m.Limit)), m.Name))
	}
	if t.WaitingCalls > 0 {
		memory = append(memory, fmt.Sprintf("%d calls wait", t.WaitingCalls))
	}
	p.row("", "memory: "+strings.Join(memory, ", "))
	if r := t.RDMA; r != nil {
		p.row("", fmt.Sprintf("%d regions of %s; answered ERR_VERS %d, ERR_CHUNK %d; dropped %d",
			r.Regions, size(r.RegionBytes), r.ErrVers, r.ErrChunk, r.Dropped))
		p.terminates("sent", r.TerminatesSent)
		p.terminates("received", r.TerminatesReceived)
	}
}

func (p *page) terminates(way string, all []terminateDoc) {
	for _, t := range all {
		p.row("", fmt.Sprintf("Terminates %s: %d: %s", way, t.Count, t.Name))
	}
}

func (p *page) exports(all []exportDoc) {
	p.table("EXPORTS")
	for _, e := range all {
		p.row(printable(e.Path), strings.Join(e.Clients, " "))
	}
}

func (p *page) connections(all []connDoc) {
	p.table("CONNECTIONS")
	if len(all) == 0 {
		p.row("none")
		return
	}
	p.row("PEER", "VIA", "FOR", "CALLS", "NOW", "IN", "OUT", "CREDITS", "INLINE", "MPA", "WITH")
	for _, c := range all {
		cells := []any{c.Peer, c.Transport, span(p.now.Sub(c.Since)), c.Calls, c.CallsUnderWay, size(c.BytesIn), size(c.BytesOut)}
		if r := c.RDMA; r != nil {
			cells = append(cells, r.CreditsGranted, fmt.Sprintf("%d/%d", r.InlineReceive, r.InlineSend), r.MPARevision, strings.TrimSpace(r.agreed()+" "+c.Security.words()))
		} else if c.Security.Suite != "" {
			cells = append(cells, "", "", "", c.Security.words())
		}
		p.row(cells...)
	}
}

// agreed names the features in use.
func (r *rdmaConnDoc) agreed() string {
	words := []string{}
	for _, w := range []struct {
		on   bool
		name string
	}{
		{r.CRC, "crc"},
		{r.MarkersSent || r.MarkersReceived, "markers"},
		{r.PeerToPeer, "peer-to-peer"},
		{r.RemoteInvalidation, "invalidation"},
		{r.Extensions.Client, "extensions"},
		{r.Extensions.ImmediateData > 0, "immediate"},
		{r.Extensions.Atomics, "atomics"},
		{r.Extensions.Delegation, fmt.Sprintf("delegation(%d)", r.Extensions.Grants)},
	} {
		if w.on {
			words = append(words, w.name)
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ",")
}

func (p *page) procedures(all []procDoc) {
	p.table("PROCEDURES")
	if len(all) == 0 {
		p.row("none called yet")
		return
	}
	p.row("PROCEDURE", "CALLS", "IN", "OUT", "MEAN", "99 % BELOW", "ERRORS")
	for _, c := range all {
		var failed []string
		for _, e := range c.Errors {
			failed = append(failed, fmt.Sprintf("%s %d", e.Name, e.Calls))
		}
		p.row(c.Program+" "+c.Procedure, c.Calls, size(c.BytesIn), size(c.BytesOut), short(c.mean()), c.below(99), strings.Join(failed, ", "))
	}
}

func (p *page) operations(all []operationDoc) {
	if len(all) == 0 {
		return
	}
	p.table("OPERATIONS OF VERSION 4")
	p.row("OPERATION", "COUNT", "ERRORS")
	for _, o := range all {
		var failed []string
		for _, e := range o.Errors {
			failed = append(failed, fmt.Sprintf("%s %d", e.Name, e.Count))
		}
		p.row(o.Operation, o.Count, strings.Join(failed, ", "))
	}
}

// mean returns how long a call took, or 0 without calls.
func (c *procDoc) mean() time.Duration {
	return time.Duration(c.Seconds * float64(time.Second) / float64(max(c.Calls, 1)))
}

// below returns the upper bound of the latency class that the given percentile
// of the calls falls into.
func (c *procDoc) below(percent uint64) string {
	var seen uint64
	for _, l := range c.Latency {
		if seen += l.Calls; seen*100 >= c.Calls*percent && l.Seconds > 0 {
			return short(time.Duration(l.Seconds * float64(time.Second)))
		}
	}
	return "more"
}
