package doctor

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"
)

// MTUs in bytes: Ethernet's, and the smallest that counts as jumbo frames.
const (
	ethernetMTU = 1500
	jumboMTU    = 4000
)

// checkMTU checks the MTUs of the interfaces that clients can reach.
func checkMTU() Finding {
	all, err := net.Interfaces()
	if err != nil {
		return Finding{"mtu", Warn, "the interfaces are unknown: " + err.Error(), "see ip link"}
	}
	var list []net.Interface
	var words []string
	for _, i := range all {
		if i.Flags&(net.FlagUp|net.FlagLoopback|net.FlagPointToPoint) == net.FlagUp && hasGlobalAddress(&i) {
			list, words = append(list, i), append(words, fmt.Sprintf("%s %d", i.Name, i.MTU))
		}
	}
	if len(list) == 0 {
		return Finding{"mtu", Warn, "no interface but loopback is up: only this host can mount", "ip link set dev DEVICE up, and set an address"}
	}
	compare := func(a, b net.Interface) int { return cmp.Compare(a.MTU, b.MTU) }
	least, most := slices.MinFunc(list, compare), slices.MaxFunc(list, compare)
	set := fmt.Sprintf("ip link set dev %s mtu %d", least.Name, ethernetMTU)
	switch found := "the MTUs of interfaces: " + strings.Join(words, ", "); {
	case least.MTU < ethernetMTU:
		return Finding{"mtu", Warn, fmt.Sprintf("%s has an MTU of %d, less than Ethernet's: messages need more packets", least.Name, least.MTU), set + ", unless its network's MTU is smaller, as in tunnels"}
	case most.MTU >= jumboMTU && least.MTU < jumboMTU:
		return Finding{"mtu", Warn, found + ": packets in one network are too long for the other", "if mountrdma doctor on a client reports lost long calls, set both networks to the same MTU"}
	case most.MTU > ethernetMTU:
		return Finding{"mtu", OK, found + ": switches and clients must use the same", ""}
	default:
		return Finding{"mtu", OK, found, ""}
	}
}

// hasGlobalAddress reports whether an interface has an address that other hosts can use.
func hasGlobalAddress(i *net.Interface) bool {
	addrs, err := i.Addrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.IsGlobalUnicast()
	})
}
