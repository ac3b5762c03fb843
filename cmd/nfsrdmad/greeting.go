package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// maxGreetedExports is the maximum number of exports for which the greeting shows commands.
const maxGreetedExports = 4

// The clients' default ports.
const (
	rdmaPort = 20049
	tcpPort  = 2049
)

// formatGreeting tells a user at a terminal how other hosts mount the exports, and who may
// mount. own are this host's addresses. Scripts get only the ready line.
func (o *serveOptions) formatGreeting(endpoints []cli.Endpoint, own []netip.Addr) string {
	var rdma, tcp netip.AddrPort
	for _, w := range endpoints {
		if a, ok := w.Addr.(*net.TCPAddr); ok && w.Name == "rdma" && !rdma.IsValid() {
			rdma = a.AddrPort()
		} else if ok && w.Name == "tcp" && !tcp.IsValid() {
			tcp = a.AddrPort()
		}
	}
	if !rdma.IsValid() {
		return "\nRDMA is not served yet: nfsrdmad status shows when it is.\n"
	}
	hosts := reachableAddrs(rdma.Addr().Unmap(), own)
	host := hosts[0]
	list := o.exports[:min(len(o.exports), maxGreetedExports)]
	var b strings.Builder
	switch {
	case len(list) == 0:
		return "\nNothing is exported yet.\n"
	case o.requiresEncryption():
		b.WriteString("\nMounts must be encrypted: tls.md and security.md in /usr/share/doc/nfsrdma have their options.\n")
	default:
		who := "Other Linux hosts mount"
		if host.IsLoopback() {
			who = "Only this host can connect. Linux mounts"
		}
		fmt.Fprintf(&b, "\n%s, as root:\n\n", who)
		for _, e := range list {
			if o.servesNFS4() || tcp.IsValid() { // NFSv3 clients use MOUNT over TCP
				fmt.Fprintf(&b, "    mount -t nfs -o %s %s /mnt\n", o.mountOptions(rdma, tcp), mountSource(host, e.name))
			}
			if tcp.IsValid() && slices.Contains(reachableAddrs(tcp.Addr().Unmap(), own), host) {
				fmt.Fprintf(&b, "    mount -t nfs%s %s /mnt    # over TCP\n", o.tcpOptions(tcp), mountSource(host, e.name))
			}
		}
		b.WriteString("\nRDMA without an iWARP card first needs this, with the name of a network device:\n\n    rdma link add siw0 type siw netdev eth0\n")
		if !o.noNFS3 { // mountrdma uses it
			b.WriteString("\nFUSE needs neither a card nor root:\n\n")
			for _, e := range list {
				fmt.Fprintf(&b, "    mountrdma%s %s DIR\n", fuseOptions(rdma), mountSource(host, e.name))
			}
		}
		if n := len(o.exports) - len(list); n > 0 {
			fmt.Fprintf(&b, "\n%d more exports: nfsrdmad status lists them.\n", n)
		}
	}
	if len(hosts) > 1 {
		var names []string
		for _, h := range hosts[1:] {
			names = append(names, h.String())
		}
		fmt.Fprintf(&b, "\nOther addresses of this host: %s.\n", strings.Join(names, ", "))
	}
	b.WriteString("\n" + o.describeAccess(host.IsLoopback()) + "\n")
	return b.String()
}

// requiresEncryption reports whether the flags reject unencrypted calls.
func (o *serveOptions) requiresEncryption() bool {
	return o.onlyEncrypted || !o.transports.Take(exports.TransportNone) || o.rdmaTLS.Word == "require"
}

// describeAccess describes who may do what.
func (o *serveOptions) describeAccess(local bool) string {
	may := "read and write"
	if o.readOnly {
		may = "read"
	}
	as := "as any user except root"
	if o.noRootSquash {
		as = "as any user, root included"
	}
	switch {
	case o.exportsFile != "":
		return fmt.Sprintf("%s lists who may mount what; nfsrdmad exports check %[1]s explains it.", quoteShell(o.exportsFile))
	case o.sec != "" && !strings.Contains(":"+o.sec+":", ":sys:"):
		return fmt.Sprintf("Users may %s with a Kerberos ticket, each as themselves.", may)
	case local:
		return fmt.Sprintf("Every program on this host may %s, %s.", may, as)
	case len(o.clientWords) > 0:
		return fmt.Sprintf("Every program on the hosts in %s may %s, %s: the server trusts the users that a host claims (AUTH_SYS).",
			strings.Join(o.clientWords, ", "), may, as)
	}
	return fmt.Sprintf("WARNING: every host that reaches these ports may %s, %s: the server\n"+
		"trusts the users that a host claims (AUTH_SYS). List the hosts with --clients 192.0.2.0/24, or require\nKerberos with --sec krb5p.", may, as)
}

// mountOptions returns the mount(8) options for RDMA.
func (o *serveOptions) mountOptions(rdma, tcp netip.AddrPort) string {
	if o.servesNFS4() {
		if rdma.Port() == rdmaPort {
			return "rdma"
		}
		return fmt.Sprintf("rdma,port=%d", rdma.Port())
	}
	return fmt.Sprintf("vers=3,proto=rdma,port=%d,mountproto=tcp,mountport=%d,nolock", rdma.Port(), tcp.Port())
}

// tcpOptions returns the -o flag with the mount(8) options for TCP, or "".
func (o *serveOptions) tcpOptions(tcp netip.AddrPort) string {
	switch {
	case !o.servesNFS4():
		return fmt.Sprintf(" -o vers=3,port=%d,mountport=%[1]d,mountproto=tcp,nolock", tcp.Port())
	case tcp.Port() != tcpPort:
		return fmt.Sprintf(" -o port=%d", tcp.Port())
	}
	return ""
}

// fuseOptions returns the -o flag with the options for mountrdma, or "".
func fuseOptions(rdma netip.AddrPort) string {
	if rdma.Port() == rdmaPort {
		return ""
	}
	return fmt.Sprintf(" -o port=%d", rdma.Port())
}

// servesNFS4 reports whether NFSv4 is served, which Linux uses by default.
func (o *serveOptions) servesNFS4() bool { return len(o.minors) > 0 }

// mountSource returns mount(8)'s first argument, quoted for a shell.
func mountSource(host netip.Addr, name string) string {
	if host.Is6() {
		return quoteShell("[" + host.String() + "]:" + name)
	}
	return quoteShell(host.String() + ":" + name)
}

// quoteShell quotes a word for a shell if necessary.
func quoteShell(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("-_./:@%+=,0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r)
	}) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// reachableAddrs returns the addresses at which other hosts reach a listener: its own, or
// those of the host, IPv4 first, or only loopback if there are no others.
func reachableAddrs(at netip.Addr, own []netip.Addr) []netip.Addr {
	if !at.IsUnspecified() {
		return []netip.Addr{at}
	}
	var list []netip.Addr
	for _, ipv4 := range []bool{true, false} {
		for _, a := range own {
			if a.Is4() == ipv4 && a.IsGlobalUnicast() && (a.Is4() || !at.Is4()) {
				list = append(list, a)
			}
		}
	}
	if len(list) == 0 {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return list
}

// ownAddresses returns this host's addresses. If they cannot be determined, the greeting
// treats the host as one without a network.
func ownAddresses() (own []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, ip.Unmap())
			}
		}
	}
	return own
}
