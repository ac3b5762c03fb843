package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// PrintText prints status as text.
func (d *Status) PrintText(w io.Writer, now time.Time) error {
	p := &textPage{now: now}
	p.tab = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	p.addDaemon(d)
	if d.Standby != nil {
		p.addRow("standby", strings.TrimPrefix(d.Standby.Text, "standby: ")+"; fence: "+d.Standby.Fence)
	}
	if d.Daemon.State == waitingState {
		p.tab.Flush() // into memory
		return p.writeTo(w)
	}
	if d.Grants != nil {
		p.addRow("delegation", d.Grants)
	}
	if v := d.NFS4; v != nil {
		p.addRow("NFSv4", fmt.Sprintf("%d clients, %d sessions, %d opens, %d locks, %d delegations (%d for writing); slots for %s of replies, limit %s",
			v.Clients-v.Unconfirmed, v.Sessions, v.Opens, v.Locks, v.Delegations, v.Writes, formatSize(uint64(v.ReplyBytes)), formatSize(uint64(v.ReplyLimit))))
		if v.Grace > 0 {
			p.addRow("grace", fmt.Sprintf("%d clients may reclaim what they held before the restart, for at most %s", v.Grace, formatSpan(time.Duration(v.GraceLeft*float64(time.Second)))))
		}
		if v.Failing {
			p.addRow("clients", "cannot open or lock files: the list of clients in the state directory cannot be written")
		}
	}
	if d.Kerberos != nil {
		p.addKerberos(d.Kerberos)
	}
	if d.TLS != nil {
		p.addTLS(d.TLS)
	}
	for i := range d.Transports {
		p.addTransport(&d.Transports[i])
	}
	if v := d.Trace; v != nil {
		p.addRow("tracing", fmt.Sprintf("%d spans sent, %d waiting, %d dropped because the queue was full, %d rejected by the collector", v.Sent, v.Waiting, v.Dropped, v.Failed))
	}
	if v := d.Discovery; v != nil {
		p.addRow("discover", fmt.Sprintf("%s, boot %s, %d clients, %d monitors; %d queries answered, %d rejected, %d dropped; %d notices, %d updates sent",
			v.Address, v.Boot, v.Clients, v.Monitors, v.Queries, v.Refused, v.Dropped, v.Notices, v.Updates))
	}
	p.startTable("EXPORTS")
	p.addExportRows(d.Exports, d.Verbose)
	p.addConnections(d.Connections)
	if d.Kerberos != nil {
		p.addContexts(d.Kerberos)
	}
	p.addActivity(d)
	p.addProcedures(d.Procedures)
	p.addOperations(d.Operations)
	p.tab.Flush() // into memory
	return p.writeTo(w)
}

// A textPage is text with tables.
type textPage struct {
	text strings.Builder
	tab  *tabwriter.Writer
	now  time.Time
}

// addRow adds a row with the given cells.
func (p *textPage) addRow(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(p.tab, "\t")
		}
		fmt.Fprint(p.tab, c)
	}
	fmt.Fprintln(p.tab)
}

// startTable starts a new table with its own columns.
func (p *textPage) startTable(title string) {
	p.tab.Flush()
	fmt.Fprintf(&p.text, "\n%s\n", title)
}

func (p *textPage) addDaemon(d *Status) {
	g, r := &d.Daemon, &d.ReplayCache
	if g.State == waitingState {
		p.addRow("nfsrdmad "+g.Version, fmt.Sprintf("%s, process %d, user %d", g.State, g.PID, g.UID))
		return
	}
	p.addRow("nfsrdmad "+g.Version, fmt.Sprintf("%s since %s (%s), process %d, user %d",
		g.State, g.Since.Local().Format(time.DateTime), formatSpan(p.now.Sub(g.Since)), g.PID, g.UID))
	p.addRow("replay cache", fmt.Sprintf("%d replies in %s; %d calls executed once, %d retransmissions answered, %d replies evicted early",
		r.Replies, formatSize(uint64(r.Bytes)), r.Executed, r.Replayed+r.Joined, r.Forgotten))
}

func (p *textPage) addTransport(t *Transport) {
	c := &t.Connections
	line := fmt.Sprintf("%s, %d connections now, %d in total", t.FormatAddresses(), c.Now, c.Total)
	for _, n := range []struct {
		count uint64
		what  string
	}{{c.Refused, "rejected"}, {c.Replaced, "replaced"}, {c.Stalled, "stalled"}} {
		if n.count > 0 {
			line += fmt.Sprintf(", %d %s", n.count, n.what)
		}
	}
	p.addRow(t.Name, line)
	var memory []string
	for _, m := range t.Memory {
		memory = append(memory, fmt.Sprintf("%s of %s for %s", formatSize(uint64(m.InUse)), formatSize(uint64(m.Limit)), m.Name))
	}
	if t.WaitingCalls > 0 {
		memory = append(memory, fmt.Sprintf("%d calls wait", t.WaitingCalls))
	}
	p.addRow("", "memory: "+strings.Join(memory, ", "))
	if r := t.RDMA; r != nil {
		p.addRow("", fmt.Sprintf("%d regions with %s; sent ERR_VERS %d, ERR_CHUNK %d; dropped %d",
			r.Regions, formatSize(r.RegionBytes), r.ErrVers, r.ErrChunk, r.Dropped))
		p.addTerminates("sent", r.TerminatesSent)
		p.addTerminates("received", r.TerminatesReceived)
	}
}

func (p *textPage) addTerminates(direction string, all []terminateDoc) {
	for _, t := range all {
		p.addRow("", fmt.Sprintf("Terminates %s: %d: %s", direction, t.Count, t.Name))
	}
}

func (p *textPage) addConnections(all []Connection) {
	p.startTable("CONNECTIONS")
	if len(all) == 0 {
		p.addRow("none")
		return
	}
	p.addRow("PEER", "VIA", "FOR", "CALLS", "NOW", "IN", "OUT", "CREDITS", "INLINE", "MPA", "WITH")
	for _, c := range all {
		cells := []any{c.Peer, c.Transport, formatSpan(p.now.Sub(c.Since)), c.Calls, c.CallsUnderWay, formatSize(c.BytesIn), formatSize(c.BytesOut)}
		if r := c.RDMA; r != nil {
			cells = append(cells, r.CreditsGranted, fmt.Sprintf("%d/%d", r.InlineReceive, r.InlineSend), r.MPARevision, strings.TrimSpace(r.features()+" "+c.Security.describe()))
		} else if c.Security.Suite != "" {
			cells = append(cells, "", "", "", c.Security.describe())
		}
		p.addRow(cells...)
	}
}

// features lists the features in use.
func (r *rdmaConnDoc) features() string {
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

func (p *textPage) addProcedures(all []procDoc) {
	p.startTable("PROCEDURES")
	if len(all) == 0 {
		p.addRow("none called yet")
		return
	}
	p.addRow("PROCEDURE", "CALLS", "IN", "OUT", "MEAN", "99 % BELOW", "ERRORS")
	for _, c := range all {
		var failed []string
		for _, e := range c.Errors {
			failed = append(failed, fmt.Sprintf("%s %d", e.Name, e.Calls))
		}
		p.addRow(c.Program+" "+c.Procedure, c.Calls, formatSize(c.BytesIn), formatSize(c.BytesOut), formatDuration(c.meanDuration()), c.percentileBound(99), strings.Join(failed, ", "))
	}
}

func (p *textPage) addOperations(all []operationDoc) {
	if len(all) == 0 {
		return
	}
	p.startTable("NFSV4 OPERATIONS")
	p.addRow("OPERATION", "COUNT", "ERRORS")
	for _, o := range all {
		var failed []string
		for _, e := range o.Errors {
			failed = append(failed, fmt.Sprintf("%s %d", e.Name, e.Count))
		}
		p.addRow(o.Operation, o.Count, strings.Join(failed, ", "))
	}
}

// meanDuration returns a call's mean duration, or 0 without calls.
func (c *procDoc) meanDuration() time.Duration {
	return time.Duration(c.Seconds * float64(time.Second) / float64(max(c.Calls, 1)))
}

// percentileBound returns the upper bound of the latency class that contains the given
// percentile.
func (c *procDoc) percentileBound(percent uint64) string {
	return percentileBound(c.Latency, c.Calls, percent)
}

// percentileBound returns the upper bound of the latency class that contains the given percentile
// of calls.
func percentileBound(latency []latencyDoc, calls, percent uint64) string {
	var seen uint64
	for _, l := range latency {
		if seen += l.Calls; seen*100 >= calls*percent && l.Seconds > 0 {
			return formatDuration(time.Duration(l.Seconds * float64(time.Second)))
		}
	}
	return "more"
}

// FormatAddresses returns all addresses of a transport.
func (t Transport) FormatAddresses() string {
	if len(t.Addresses) > 0 {
		return strings.Join(t.Addresses, ", ")
	}
	return t.Address
}
