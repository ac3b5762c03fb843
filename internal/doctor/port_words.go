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

// A Service is the service that should listen on a port.
type Service struct {
	Name   string // name of the check
	Words  string // name in findings
	Needed bool   // whether a closed port is an error
	Remedy string // used if nothing listens there
}

// Finding returns the finding about a service's port. If packets are dropped, it searches
// for the place, which takes a second.
func (s Service) Finding(ctx context.Context, p Port) Finding {
	f := Finding{Check: s.Name, Grade: Fail}
	if !s.Needed {
		f.Grade = Warn
	}
	found := "is closed: "
	switch p.State {
	case Open:
		f.Grade, found = OK, "is open"
	case portRefused:
		found += "nothing listens there, or a firewall sends resets"
		f.Remedy = s.Remedy
		if !s.Needed {
			f.Grade, f.Remedy = OK, ""
		}
	case portRejected:
		found, f.Remedy = p.describeRejected()
	case portSilent:
		found, f.Remedy = p.describeSilent(ctx)
	case portDroppedHere:
		found, f.Remedy = "is unreachable: this host's own firewall drops the packets", p.outboundRemedy()
	case portUnanswered:
		found = "is unreachable: no host on this network has the address"
		f.Remedy = "start the host, or correct the address (ip neigh show " + p.Addr.Addr().String() + ")"
	case portNoRoute:
		found, f.Remedy = "is unreachable: this host has no route to it", "correct the routes: ip route get "+p.Addr.Addr().String()
		if p.By.IsValid() && !isLocal(p.By) {
			found, f.Remedy = fmt.Sprintf("is unreachable: the router %v has no route to it", p.By), "start the host, or have the router's administrator correct its routes"
		}
	case portForbidden:
		found = fmt.Sprintf("is unreachable: this host forbids it (%v)", p.Err)
		f.Remedy = "ip route get " + p.Addr.Addr().String() + " shows whether a route does (prohibit, blackhole), else check nft list ruleset"
	default:
		found, f.Remedy = fmt.Sprintf("cannot be checked: %v", p.Err), "correct the address"
	}
	f.Found = fmt.Sprintf("%s at %v %s", s.Words, p.Addr, found)
	return f
}

// outboundRemedy returns the remedy for this host's firewall.
func (p Port) outboundRemedy() string {
	return fmt.Sprintf("permit TCP port %d outbound: nft list ruleset, or iptables -S OUTPUT, shows the rule", p.Addr.Port())
}

// inboundRemedy returns the remedy for the server's firewall.
func (p Port) inboundRemedy() string {
	return fmt.Sprintf("permit TCP port %d there: firewall-cmd --add-port=%[1]d/tcp or ufw allow %[1]d/tcp", p.Addr.Port())
}

// routerRemedy returns the remedy for a firewall between this host and the server.
func (p Port) routerRemedy() string {
	return fmt.Sprintf("ask its administrator to permit TCP port %d", p.Addr.Port())
}

// describeRejected returns the finding for a port that a firewall rejects.
func (p Port) describeRejected() (found, remedy string) {
	switch by := p.By; {
	case by == p.Addr.Addr().Unmap():
		return "is closed: the server's own firewall rejects", p.inboundRemedy()
	case isLocal(by):
		return "is closed: this host's own firewall rejects", p.outboundRemedy()
	default:
		return fmt.Sprintf("is closed: a firewall at %v rejects", by), p.routerRemedy()
	}
}

// describeSilent returns the finding for a port whose packets are dropped.
func (p Port) describeSilent(ctx context.Context) (found, remedy string) {
	if by, hops := lastHop(ctx, p.Addr); hops > 0 {
		return fmt.Sprintf("does not respond: packets reach %v, hop %d, and are dropped there or behind it", by, hops),
			"permit TCP port " + fmt.Sprint(p.Addr.Port()) + " there and in the server's own firewall, or start the server"
	}
	if isNeighbor(p.Addr.Addr().Unmap()) {
		return "does not respond, though the host on this network is up: its own firewall drops the packets", p.inboundRemedy()
	}
	return "does not respond, and no router on the path does: the host is down, or packets are dropped",
		"start the host, correct the address, or open the port in its firewall"
}

// maxHops is the largest hop limit that lastHop tries, and hopTimeout how long it waits.
const (
	maxHops    = 30
	hopTimeout = time.Second
)

// lastHop returns the last router that packets to a port reach and its distance, or 0 hops.
func lastHop(ctx context.Context, addr netip.AddrPort) (by netip.Addr, hops int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := 1; n <= maxHops; n++ {
		wg.Go(func() {
			p, late := tryPort(ctx, addr, hopTimeout, n)
			mu.Lock()
			defer mu.Unlock()
			if late && n > hops {
				by, hops = p.By, n
			}
		})
	}
	wg.Wait()
	return by, hops
}

// completeEntry is the flag of a completed ARP entry (arp(7), ATF_COM).
const completeEntry = "0x2"

// isNeighbor reports whether a host on this host's networks has an address, according to the
// ARP table (IPv4 only).
func isNeighbor(ip netip.Addr) bool {
	table, err := os.ReadFile("/proc/net/arp")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == ip.String() && f[2] == completeEntry {
			return true
		}
	}
	return false
}
