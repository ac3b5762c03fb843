package doctor

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"
)

// MTUs in bytes: that of Ethernet, and the least of jumbo frames.
const (
	ethernet = 1500
	jumbo    = 4000
)

// mtu judges the MTUs of the interfaces by which clients come.
func mtu() Finding {
	all, err := net.Interfaces()
	if err != nil {
		return Finding{"mtu", Warn, "the interfaces are not known: " + err.Error(), "see ip link"}
	}
	var list []net.Interface
	var words []string
	for _, i := range all {
		if i.Flags&(net.FlagUp|net.FlagLoopback|net.FlagPointToPoint) == net.FlagUp && reachable(&i) {
			list, words = append(list, i), append(words, fmt.Sprintf("%s %d", i.Name, i.MTU))
		}
	}
	if len(list) == 0 {
		return Finding{"mtu", Warn, "no interface but loopback is up: only this host can mount", "ip link set dev DEVICE up, and an address for it"}
	}
	compare := func(a, b net.Interface) int { return cmp.Compare(a.MTU, b.MTU) }
	least, most := slices.MinFunc(list, compare), slices.MaxFunc(list, compare)
	set := fmt.Sprintf("ip link set dev %s mtu %d", least.Name, ethernet)
	switch found := "the MTUs of interfaces: " + strings.Join(words, ", "); {
	case least.MTU < ethernet:
		return Finding{"mtu", Warn, fmt.Sprintf("%s has an MTU of %d, less than Ethernet's: messages take more packets", least.Name, least.MTU), set + ", unless its network has less, as tunnels do"}
	case most.MTU >= jumbo && least.MTU < jumbo:
		return Finding{"mtu", Warn, found + ": packets of one network are too long for the other", "see whether mountrdma doctor of a client finds its long calls lost; then give both networks one MTU"}
	case most.MTU > ethernet:
		return Finding{"mtu", OK, found + ": switches and clients must have the same", ""}
	default:
		return Finding{"mtu", OK, found, ""}
	}
}

// reachable reports whether an interface has an address for other hosts.
func reachable(i *net.Interface) bool {
	addrs, err := i.Addrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.IsGlobalUnicast()
	})
}
