package report

import (
	"fmt"
	"strings"
	"time"
)

// An attentionNotice is a sentence about something that an administrator should know. If Bad
// is set, it harms clients now, or has made calls fail.
type attentionNotice struct {
	Text string
	Bad  bool
}

// Thresholds for the live page's notices.
const (
	nearlyFull        = 0.9                 // share of a memory limit
	nearlyFullSpace   = 0.95                // share of a file system
	certificateNotice = 14 * 24 * time.Hour // before a certificate expires
)

// hostFaults explains the call errors that are this host's fault.
var hostFaults = map[string]string{
	"NFS3ERR_IO": "the disk or the file system failed", "NFS4ERR_IO": "the disk or the file system failed",
	"NFS3ERR_NOSPC": "the file system is full", "NFS4ERR_NOSPC": "the file system is full",
	"NFS3ERR_DQUOT": "a user's quota is used up", "NFS4ERR_DQUOT": "a user's quota is used up",
	"NFS3ERR_SERVERFAULT": "the daemon's log says why", "NFS4ERR_SERVERFAULT": "the daemon's log says why",
	"SYSTEM_ERR": "the daemon's log says why",
}

// listAttention lists what needs attention, the worst first.
func listAttention(d *Status, holders *ClientList, at time.Time) []attentionNotice {
	var bad, notes []attentionNotice
	harm := func(format string, args ...any) {
		bad = append(bad, attentionNotice{fmt.Sprintf(format, args...), true})
	}
	note := func(format string, args ...any) {
		notes = append(notes, attentionNotice{fmt.Sprintf(format, args...), false})
	}

	if d.Daemon.State == "draining" {
		note("The daemon completes its calls before it exits, and accepts no new clients.")
	}
	if d.Standby != nil {
		note("%s.", d.Standby.Text)
	}
	for i := range d.Exports {
		if e := &d.Exports[i]; e.Unavailable != "" {
			harm("%s is unavailable, and its clients wait: %s.", e.Path, e.Unavailable)
		}
	}
	for i := range d.Exports {
		e := &d.Exports[i]
		switch s := e.Space; {
		case s == nil:
		case !s.Responds:
			harm("The file system of %s does not respond: its storage hangs or fails.", e.Path)
		case s.usedShare() >= nearlyFullSpace:
			note("The file system of %s is nearly full: %s of %s are free, and %s inodes.", e.Path, formatSize(s.AvailableBytes), formatSize(s.Bytes), s.describeFiles())
		}
	}
	if n := d.NFS4; n != nil {
		if n.Failing {
			harm("Clients cannot open or lock files: the list of clients in the state directory cannot be written. Is its file system full?")
		}
		if n.Grace > 0 {
			note("%d clients may reclaim what they held before the restart, for at most %s; until then, other clients get no locks.", n.Grace, formatSpan(time.Duration(n.GraceLeft*float64(time.Second))))
		}
		if n.Revoked > 0 {
			note("%d NFSv4 delegations were revoked, because clients did not return them in time.", n.Revoked)
		}
	}
	if g := d.Grants; g != nil {
		if g.WaitSeconds > 0 {
			note("Changes wait for at most %s, because clients may hold delegations from before the restart.", formatSpan(time.Duration(g.WaitSeconds*float64(time.Second))))
		}
		if g.Late > 0 {
			note("%d recalled delegations were returned too late: a client hangs, or its network is down.", g.Late)
		}
	}
	for i := range d.Transports {
		t := &d.Transports[i]
		if t.WaitingCalls > 0 {
			harm("%d calls over %s wait for memory: a client does not receive its replies, or there are many large calls.", t.WaitingCalls, t.Name)
		}
		for _, m := range t.Memory {
			if float64(m.InUse) >= nearlyFull*float64(m.Limit) && m.Limit > 0 {
				harm("Memory for %s over %s is nearly used up: %s of %s.", m.Name, t.Name, formatSize(uint64(m.InUse)), formatSize(uint64(m.Limit)))
			}
		}
		if n := t.Connections.Refused; n > 0 {
			harm("%d connections over %s were rejected, because the limit was reached.", n, t.Name)
		}
		if n := t.Connections.Stalled; n > 0 {
			note("%d connections over %s were closed, because they made no progress while they held memory.", n, t.Name)
		}
		if t.RDMA != nil {
			for _, e := range t.RDMA.TerminatesSent {
				note("%d connections were closed with a Terminate from this server: %s.", e.Count, e.Name)
			}
			for _, e := range t.RDMA.TerminatesReceived {
				note("%d connections were closed with a Terminate from a client: %s.", e.Count, e.Name)
			}
		}
	}
	for i := range d.Procedures {
		p := &d.Procedures[i]
		for _, e := range p.Errors {
			if strings.HasPrefix(e.Name, "NFS4ERR_") {
				continue // its last operation's error, which is counted there
			}
			if why, ok := hostFaults[e.Name]; ok {
				harm("%d calls of %s %s failed with %s: %s.", e.Calls, p.Program, p.Procedure, e.Name, why)
			}
		}
	}
	for _, o := range d.Operations {
		for _, e := range o.Errors {
			if why, ok := hostFaults[e.Name]; ok {
				harm("%d operations %s failed with %s: %s.", e.Count, o.Operation, e.Name, why)
			}
		}
	}
	if n := d.ReplayCache.Forgotten; n > 0 {
		note("%d cached replies were evicted early: if a client retransmits such a call, it is executed again.", n)
	}
	if t := d.TLS; t != nil {
		switch left := t.Ends.Sub(at); {
		case t.Fault != "":
			harm("All TLS handshakes fail: %s.", t.Fault)
		case left <= 0:
			harm("The certificate %s has expired: clients with TLS reject this server.", t.Certificate)
		case left < certificateNotice:
			note("The certificate %s expires in %s.", t.Certificate, formatSpan(left))
		}
	}
	silent := 0
	for i := range holders.Clients {
		if holders.Clients[i].State == "courtesy" {
			silent++
		}
	}
	if silent > 0 {
		note("%d clients have not renewed their lease in time, and keep what they hold until others need it.", silent)
	}
	return append(bad, notes...)
}
