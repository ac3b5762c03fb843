package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

// A Service is what should answer at a port.
type Service struct {
	Name   string // of its check
	Words  string // for people
	Needed bool   // a closed port is a fault
	Remedy string // if nothing listens there
}

// Finding says how a service's port answers. If packets are dropped, it looks for the
// place, which takes a second.
func (s Service) Finding(ctx context.Context, p Port) Finding {
	f := Finding{Check: s.Name, Grade: Fail}
	if !s.Needed {
		f.Grade = Warn
	}
	found := "is closed: "
	switch p.State {
	case Open:
		f.Grade, found = OK, "is open"
	case Refused:
		found += "nothing listens there, or a firewall pretends that"
		f.Remedy = s.Remedy
		if !s.Needed {
			f.Grade, f.Remedy = OK, ""
		}
	case Rejected:
		found, f.Remedy = p.rejected()
	case Silent:
		found, f.Remedy = p.silent(ctx)
	case DroppedHere:
		found, f.Remedy = "gets nothing: this host's own firewall drops the packets", p.letOut()
	case Unanswered:
		found = "gets nothing: no host on this network has the address"
		f.Remedy = "start the host, or correct the address (ip neigh show " + p.Addr.Addr().String() + ")"
	case NoRoute:
		found, f.Remedy = "gets nothing: this host has no route to it", "correct the routes: ip route get "+p.Addr.Addr().String()
		if p.By.IsValid() && !isLocal(p.By) {
			found, f.Remedy = fmt.Sprintf("gets nothing: the router %v has no way to it", p.By), "start the host, or have the router's administrator correct its routes"
		}
	case Forbidden:
		found = fmt.Sprintf("gets nothing: this host forbids it (%v)", p.Err)
		f.Remedy = "ip route get " + p.Addr.Addr().String() + " shows a route that does (prohibit, blackhole), else see nft list ruleset"
	default:
		found, f.Remedy = fmt.Sprintf("cannot be tried: %v", p.Err), "correct the address"
	}
	f.Found = fmt.Sprintf("%s at %v %s", s.Words, p.Addr, found)
	return f
}

// letOut is the remedy for a firewall of this host.
func (p Port) letOut() string {
	return fmt.Sprintf("let TCP port %d out: nft list ruleset, or iptables -S OUTPUT, shows the rule", p.Addr.Port())
}

// letIn is the remedy for a firewall of the server.
func (p Port) letIn() string {
	return fmt.Sprintf("let TCP port %d in there, as by firewall-cmd --add-port=%[1]d/tcp or ufw allow %[1]d/tcp", p.Addr.Port())
}

func (p Port) letThrough() string {
	return fmt.Sprintf("have its administrator let TCP port %d through", p.Addr.Port())
}

func (p Port) rejected() (found, remedy string) {
	switch by := p.By; {
	case by == p.Addr.Addr().Unmap():
		return "is closed: the server's own firewall rejects", p.letIn()
	case isLocal(by):
		return "is closed: this host's own firewall rejects", p.letOut()
	default:
		return fmt.Sprintf("is closed: a firewall at %v rejects", by), p.letThrough()
	}
}

func (p Port) silent(ctx context.Context) (found, remedy string) {
	if by, hops := lastHop(ctx, p.Addr); hops > 0 {
		return fmt.Sprintf("gets no answer: packets get as far as %v, hop %d, and are dropped there or behind it", by, hops),
			"let TCP port " + fmt.Sprint(p.Addr.Port()) + " through there and in the server's own firewall, or start the server"
	}
	if isNeighbor(p.Addr.Addr().Unmap()) {
		return "gets no answer, though the host is on this network and up: its own firewall drops the packets", p.letIn()
	}
	return "gets no answer, and no router on the way answers: the host is down, or something drops the packets",
		"start the host, correct the address, or open the port in its firewall"
}

// maxHops is how far lastHop looks, and hopTime how long it waits.
const (
	maxHops = 30
	hopTime = time.Second
)

// lastHop returns the last router that packets to a port reach, or hops of 0.
func lastHop(ctx context.Context, addr netip.AddrPort) (by netip.Addr, hops int) {
	var mu sync.Mutex
	var running sync.WaitGroup
	for n := 1; n <= maxHops; n++ {
		running.Go(func() {
			p, late := tryPort(ctx, addr, hopTime, n)
			mu.Lock()
			defer mu.Unlock()
			if late && n > hops {
				by, hops = p.By, n
			}
		})
	}
	running.Wait()
	return by, hops
}

// answered is the flag of a complete entry (arp(7), ATF_COM).
const answered = "0x2"

// isNeighbor reports whether a host of a network of this host has said that it has an
// address (IPv4 alone).
func isNeighbor(ip netip.Addr) bool {
	table, err := os.ReadFile("/proc/net/arp")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == ip.String() && f[2] == answered {
			return true
		}
	}
	return false
}
