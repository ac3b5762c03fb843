package rpcbind

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ErrUaddr means that a string is not a universal IP address.
var ErrUaddr = errors.New("rpcbind: not a universal address")

// Uaddr returns the universal address for an IPv4 or IPv6 address and port: the
// address, and the port's two bytes in decimal, "192.0.2.7.203.81" or
// "2001:db8::7.203.81" (RFC 5665, Sections 5.2.3.3 and 5.2.3.4).
func Uaddr(a netip.AddrPort) string {
	ip := a.Addr().Unmap().WithZone("") // a zone is valid only on its own host
	return fmt.Sprintf("%s.%d.%d", ip, a.Port()>>8, a.Port()&0xff)
}

// ParseUaddr is the inverse of Uaddr. The error is or wraps ErrUaddr.
func ParseUaddr(s string) (netip.AddrPort, error) {
	rest, low, ok := cutLast(s)
	host, high, ok2 := cutLast(rest)
	p1, err := strconv.ParseUint(high, 10, 8)
	p2, err2 := strconv.ParseUint(low, 10, 8)
	ip, err3 := netip.ParseAddr(host)
	if !ok || !ok2 || ip.Zone() != "" || errors.Join(err, err2, err3) != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %.60q", ErrUaddr, s)
	}
	return netip.AddrPortFrom(ip, uint16(p1<<8|p2)), nil
}

// cutLast cuts s around its last dot.
func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}
