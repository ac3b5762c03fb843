package doctor

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/nstest"
)

// network creates a network of three namespaces:
//
//	here 10.77.0.2 ──── 10.77.0.1 router 10.77.1.1 ──── 10.77.1.2 server
const network = `
mkdir -p /run/netns
ip netns add router
ip netns add server
ip link add c0 type veth peer name r0 netns router
ip -n router link add r1 type veth peer name s0 netns server
ip addr add 10.77.0.2/24 dev c0
ip -n router addr add 10.77.0.1/24 dev r0
ip -n router addr add 10.77.1.1/24 dev r1
ip -n server addr add 10.77.1.2/24 dev s0
ip addr add fd77::2/64 dev c0 nodad
ip -n router addr add fd77::1/64 dev r0 nodad
ip link set c0 up
ip -n router link set r0 up
ip -n router link set r1 up
ip -n server link set s0 up
ip netns exec router sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv4/neigh/r1/mcast_solicit'
echo 1 > /proc/sys/net/ipv4/neigh/c0/mcast_solicit
ip route add 10.77.1.0/24 via 10.77.0.1
ip -n server route add default via 10.77.1.1
`

// firewalls drop and reject packets, each at its own port.
const firewalls = `
iptables -A OUTPUT -p tcp --dport 11 -j DROP
iptables -A OUTPUT -p tcp --dport 12 -j REJECT
ip netns exec router iptables -A FORWARD -p tcp --dport 13 -j DROP
ip netns exec router iptables -A FORWARD -p tcp --dport 14 -j REJECT --reject-with icmp-admin-prohibited
ip netns exec router iptables -A INPUT -p tcp --dport 18 -j DROP
ip netns exec server iptables -A INPUT -p tcp --dport 15 -j DROP
ip netns exec server iptables -A INPUT -p tcp --dport 16 -j REJECT
ip netns exec server iptables -A INPUT -p tcp --dport 17 -j REJECT --reject-with tcp-reset
ip netns exec router ip6tables -A INPUT -p tcp --dport 19 -j REJECT
ip route add prohibit 198.51.100.0/24
ip route add blackhole 198.51.101.0/24
`

// TestTryPort checks a port in each state that the doctor distinguishes.
func TestTryPort(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		nstest.Script(t, network)
		nstest.Script(t, firewalls)
		nstest.In(t, "server", func() error {
			l, err := net.Listen("tcp", "10.77.1.2:10")
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		})
		var running sync.WaitGroup
		for _, tt := range []struct {
			addr  string
			state PortState
			by    string
			words string
		}{
			{"10.77.1.2:10", Open, "", "NFS at 10.77.1.2:10 is open"},
			{"10.77.1.2:9", portRefused, "", "nothing listens"},
			{"10.77.1.2:11", portDroppedHere, "", "this host's own firewall drops"},
			{"10.77.1.2:12", portRejected, "10.77.0.2", "this host's own firewall rejects"},
			{"10.77.1.2:13", portSilent, "", "packets reach 10.77.0.1"},
			{"10.77.1.2:14", portRejected, "10.77.0.1", "a firewall at 10.77.0.1 rejects"},
			{"10.77.1.2:15", portSilent, "", "packets reach 10.77.0.1, hop 1,"},
			{"10.77.0.1:18", portSilent, "", "its own firewall drops the packets"},
			{"10.77.1.2:16", portRejected, "10.77.1.2", "the server's own firewall rejects"},
			{"10.77.1.2:17", portRefused, "", "nothing listens"},
			{"[fd77::1]:9", portRefused, "", "nothing listens"},
			{"[fd77::1]:19", portRejected, "fd77::1", "the server's own firewall rejects"},
			{"10.77.0.9:10", portUnanswered, "10.77.0.2", "no host on this network"},
			{"10.77.1.9:10", portNoRoute, "10.77.0.1", "10.77.0.1 has no route to it"},
			{"203.0.113.1:10", portNoRoute, "", "this host has no route"},
			{"198.51.100.1:10", portForbidden, "", "this host forbids"},
			{"198.51.101.1:10", portForbidden, "", "this host forbids"},
		} {
			running.Go(func() {
				p := TryPort(t.Context(), netip.MustParseAddrPort(tt.addr), 3*time.Second)
				f := Service{"nfs", "NFS", true, "start it"}.Finding(t.Context(), p)
				assert.Contains(t, f.Found, tt.words)
				assert.Equal(t, tt.state == Open, f.Grade == OK, f.Found)
				assert.Equal(t, tt.state == Open, f.Remedy == "", f.Found)
				assert.Equal(t, tt.state, p.State, "%s: %v", tt.addr, p.Err)
				if tt.by == "" {
					assert.False(t, p.By.IsValid(), "%s: %v", tt.addr, p.By)
				} else {
					assert.Equal(t, tt.by, p.By.String(), tt.addr)
				}
			})
		}
		running.Wait()
	})
}
