package main

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

var ownHost = []netip.Addr{
	netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1"),
	netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("198.51.100.7"),
}

// greet returns the greeting of a daemon that listens at two addresses; no TCP if the
// second is empty.
func greet(o *serveOptions, rdma, tcp string, own ...netip.Addr) string {
	ways := []cli.Way{{Name: "rdma", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(rdma))}}
	if tcp != "" {
		ways = append(ways, cli.Way{Name: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tcp))})
	}
	return o.greeting(ways, own)
}

func greeter(names ...string) *serveOptions {
	o := &serveOptions{versions: []string{"3", "4.2"}}
	for _, name := range names {
		o.exports = append(o.exports, export{name: name})
	}
	return o
}

func TestGreeting(t *testing.T) {
	assert.Equal(t, `
Other Linux hosts mount, as root:

    mount -t nfs -o rdma 192.0.2.7:/data /mnt
    mount -t nfs 192.0.2.7:/data /mnt    # over TCP

RDMA without an iWARP card needs this before, with the name of a network device:

    rdma link add siw0 type siw netdev eth0

FUSE needs neither card nor root:

    mountrdma 192.0.2.7:/data DIR

Other addresses of this host: 198.51.100.7, 2001:db8::7.

WARNING: every host that reaches these ports may read and write, as any user except root: the server
believes what a host says (AUTH_SYS). Name the hosts with --clients 192.0.2.0/24, or demand Kerberos
with --sec krb5p.
`, greet(greeter("/data"), "[::]:20049", "[::]:2049", ownHost...))
}

// TestGreetingCommands checks the commands for other ports, addresses, versions and
// names.
func TestGreetingCommands(t *testing.T) {
	v3 := greeter("/a b")
	v3.versions = []string{"3"}
	for _, c := range []struct {
		o         *serveOptions
		rdma, tcp string
		want      []string // all lines with mount
	}{
		{greeter("/x"), "127.0.0.1:1", "127.0.0.1:2", []string{
			"mount -t nfs -o rdma,port=1 127.0.0.1:/x /mnt", "mount -t nfs -o port=2 127.0.0.1:/x /mnt    # over TCP", "mountrdma -o port=1 127.0.0.1:/x DIR",
		}},
		{greeter("/x"), "[2001:db8::9]:20049", "[::]:2049", []string{
			"mount -t nfs -o rdma '[2001:db8::9]:/x' /mnt", "mountrdma '[2001:db8::9]:/x' DIR", // the host has no such address any more
		}},
		{greeter("/x"), "0.0.0.0:20049", "", []string{"mount -t nfs -o rdma 192.0.2.7:/x /mnt", "mountrdma 192.0.2.7:/x DIR"}},
		{v3, "0.0.0.0:20049", "[::]:2049", []string{
			"mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=2049,nolock '192.0.2.7:/a b' /mnt",
			"mount -t nfs -o vers=3,port=2049,mountport=2049,mountproto=tcp,nolock '192.0.2.7:/a b' /mnt    # over TCP", "mountrdma '192.0.2.7:/a b' DIR",
		}},
		{v3, "0.0.0.0:20049", "", []string{"mountrdma '192.0.2.7:/a b' DIR"}},
		{greeter("/it's"), "0.0.0.0:20049", "", []string{`mount -t nfs -o rdma '192.0.2.7:/it'\''s' /mnt`, `mountrdma '192.0.2.7:/it'\''s' DIR`}},
	} {
		var got []string
		for line := range strings.Lines(greet(c.o, c.rdma, c.tcp, ownHost...)) {
			if strings.HasPrefix(line, "    mount") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		assert.Equal(t, c.want, got)
	}
	many := greet(greeter("/1", "/2", "/3", "/4", "/5"), "[::]:20049", "", ownHost...)
	assert.Contains(t, many, "1 more exports")
	assert.NotContains(t, many, ":/5")
	assert.Contains(t, greet(greeter("/x"), "[::]:20049", "", ownHost[:3]...), "Only this host can connect.")
	assert.Equal(t, "\nNothing is exported yet.\n", greet(greeter(), "[::]:20049", ""))
	encrypted := greeter("/x")
	var err error
	encrypted.transports, err = exports.ParseTransports("tls")
	require.NoError(t, err)
	assert.Contains(t, greet(encrypted, "[::]:20049", "", ownHost...), "Mounts must be encrypted")
}

// TestGreetingWho checks what is said about who may connect.
func TestGreetingWho(t *testing.T) {
	for want, o := range map[string]*serveOptions{
		"every host that reaches these ports may read, as any user, root included": {readOnly: true, noRootSquash: true},
		"Every program on the hosts of 192.0.2.0/24, a may read and write":         {clientWords: []string{"192.0.2.0/24", "a"}},
		"Users may read and write with a Kerberos ticket":                          {sec: "krb5:krb5p"},
		"WARNING": {sec: "krb5:sys"},
		"Who may mount what is in '/a b'; nfsrdmad exports check '/a b' explains it.": {exportsFile: "/a b"},
	} {
		assert.Contains(t, o.mayConnect(false), want)
	}
	assert.Contains(t, new(serveOptions).mayConnect(true), "Every program of this host may read and write")
}
