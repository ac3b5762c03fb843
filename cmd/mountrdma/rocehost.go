package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/internal/discover"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
	"golang.org/x/sys/unix"
)

// A roceHost is a RoCE port at a local address, from which commands query servers.
type roceHost struct {
	dev  *roce.Device
	port *discover.Port
}

// openRoCE opens a RoCE port at a local address.
func openRoCE(local netip.Addr) (*roceHost, error) {
	wire, err := roce.ListenUDP(local)
	if err != nil {
		return nil, roceError(local, err)
	}
	h := &roceHost{dev: roce.Open(wire, roce.Config{})}
	if h.port, err = discover.NewPort(h.dev); err != nil {
		return nil, errors.Join(err, h.dev.Close())
	}
	return h, nil
}

func (h *roceHost) close() {
	h.port.Close()
	_ = h.dev.Close()
}

// roceError adds a remedy to the error from an address that cannot be opened.
func roceError(local netip.Addr, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("UDP port 4791 of %s is in use by another mountrdma on this host, nfsrdmad --discover, or the kernel's RoCE (rdma_rxe): use another local address with --local", local)
	}
	return err
}

// openRoCETo opens a port from which the server can be reached: at the address local, or if
// local is "", at the source address of packets to the server.
func openRoCETo(ctx context.Context, host, local string) (h *roceHost, server netip.Addr, err error) {
	var from netip.Addr
	if local != "" {
		if from, err = netip.ParseAddr(local); err != nil {
			return nil, server, fmt.Errorf("--local %q is no address", local)
		}
	}
	if server, err = resolveRoCE(ctx, host, from); err != nil {
		return nil, server, err
	}
	if local == "" {
		if from, err = roce.LocalAddr(server); err != nil {
			return nil, server, err
		}
	}
	h, err = openRoCE(from)
	return h, server, err
}

// resolveRoCE resolves a host name to an address, in the same family as like if like is
// valid.
func resolveRoCE(ctx context.Context, host string, like netip.Addr) (netip.Addr, error) {
	network := "ip"
	if like.IsValid() {
		network = map[bool]string{true: "ip4", false: "ip6"}[like.Unmap().Is4()]
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	if err != nil {
		return netip.Addr{}, err
	}
	return all[0].Unmap(), nil
}
