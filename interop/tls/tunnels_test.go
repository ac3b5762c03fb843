//go:build interop

package tls

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// here has functions for scripts: the ip of iproute2, not of busybox, and a command on the
// server.
const here = `
	ip() { /bin/ip "$@"; }
	peer() { ip netns exec peer "$@"; }
`

// tunnels encrypt the network below Linux's siw, as docs/tls.md describes, from the client
// 10.8.0.2 to the server 10.8.0.1. Traffic prints how many bytes the client has sent
// encrypted.
var tunnels = []struct{ name, setup, server, device, traffic string }{
	{"WireGuard", `
		wg genkey >/tmp/client.key; wg pubkey </tmp/client.key >/tmp/client.pub
		wg genkey >/tmp/server.key; wg pubkey </tmp/server.key >/tmp/server.pub
		peer ip link add wg0 type wireguard
		peer wg set wg0 listen-port 51820 private-key /tmp/server.key peer $(cat /tmp/client.pub) allowed-ips 10.9.0.2/32
		peer ip addr add 10.9.0.1/24 dev wg0
		peer ip link set wg0 mtu 1420 up
		ip link add wg0 type wireguard
		wg set wg0 private-key /tmp/client.key peer $(cat /tmp/server.pub) endpoint 10.8.0.1:51820 allowed-ips 10.9.0.1/32
		ip addr add 10.9.0.2/24 dev wg0
		ip link set wg0 mtu 1420 up`, "10.9.0.1", "wg0", "wg show wg0 transfer | cut -f 3"},
	{"IPsec", `
		out=$(od -An -tx1 -N36 -v /dev/urandom | tr -d ' \n'); in=$(od -An -tx1 -N36 -v /dev/urandom | tr -d ' \n')
		for on in "" peer; do
			$on ip xfrm state add src 10.8.0.2 dst 10.8.0.1 proto esp spi 0x1001 mode transport aead 'rfc4106(gcm(aes))' 0x$out 128
			$on ip xfrm state add src 10.8.0.1 dst 10.8.0.2 proto esp spi 0x1002 mode transport aead 'rfc4106(gcm(aes))' 0x$in 128
		done
		ip xfrm policy add src 10.8.0.2 dst 10.8.0.1 proto tcp dir out tmpl proto esp mode transport
		ip xfrm policy add src 10.8.0.1 dst 10.8.0.2 proto tcp dir in tmpl proto esp mode transport
		peer ip xfrm policy add src 10.8.0.1 dst 10.8.0.2 proto tcp dir out tmpl proto esp mode transport
		peer ip xfrm policy add src 10.8.0.2 dst 10.8.0.1 proto tcp dir in tmpl proto esp mode transport`, "10.8.0.1", "veth0", "ip -s xfrm state list src 10.8.0.2 | grep -o '[0-9]*(bytes), [0-9]' | cut -d '(' -f 1"},
}

// TestTunnels mounts nfsrdmad over RDMA by Linux's siw through WireGuard, and with IPsec.
// The server is in another network namespace of the guest, because this host's kernel may
// have neither. What is written passes encrypted. It runs with INTEROP_SOAK.
func TestTunnels(t *testing.T) {
	if os.Getenv("INTEROP_SOAK") == "" {
		t.Skip("INTEROP_SOAK is not set")
	}
	s := newSite(t, nil)
	require.NoError(t, s.Push(t.Context(), programPath("nfsrdmad"), "/bin/nfsrdmad"))
	s.Must(here + "for m in veth wireguard xfrm_user esp4 seqiv gcm; do modprobe $m || exit; done; ip netns add peer")
	for _, u := range tunnels {
		t.Run(u.name, func(t *testing.T) {
			s := s.withTest(t)
			s.Must(here+`ip link add veth0 type veth peer name veth1 && ip link set veth1 netns peer || exit
				ip addr add 10.8.0.2/24 dev veth0; ip link set veth0 up
				peer ip addr add 10.8.0.1/24 dev veth1; peer ip link set veth1 up; peer ip link set lo up
				set -e; %s`, u.setup)
			s.Must(here+`mkdir -p /export/tunnel; rm -rf /tmp/tunnel
				ip netns exec peer nfsrdmad serve --listen %s:20049 --tcp "" --control "" --state /tmp/tunnel --no-root-squash /export/tunnel=/x >/tmp/tunnel.log 2>&1 &
				for i in $(seq 100); do grep -q ^ready /tmp/tunnel.log && exit; usleep 100000; done; cat /tmp/tunnel.log; exit 1`, u.server)
			t.Cleanup(func() {
				out, _ := s.Try(here + `killall nfsrdmad; cat /tmp/tunnel.log; ip -s xfrm state; wg; dmesg | tail -5
					rdma link del siwt; ip link del wg0; peer ip link del wg0; ip link del veth0
					for on in "" peer; do $on ip xfrm state flush; $on ip xfrm policy flush; done; rm -rf /export/tunnel`)
				if t.Failed() {
					t.Log(out)
				}
			})
			s.Must("rdma link add siwt type siw netdev %s", u.device)
			s.Mount(u.server+":/x", "/mnt", "vers=4.2,proto=rdma,port=20049")
			s.Must("dd if=/dev/urandom of=/mnt/f bs=64k count=16 conv=fsync 2>/dev/null; cmp /mnt/f /export/tunnel/f")
			sent, err := strconv.Atoi(strings.TrimSpace(s.Must(here+"%s", u.traffic)))
			require.NoError(t, err)
			assert.Greater(t, sent, 16*64<<10, "bytes sent encrypted")
			s.Must("umount /mnt")
		})
	}
}
