package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Host has the addresses of this host's rpcbind, with which programs register. The zero
// value is right for Linux.
type Host struct {
	// Socket is the path of rpcbind's local socket, over which rpcbind learns
	// the caller's user; "" means /run/rpcbind.sock.
	Socket string

	// Addr is the TCP address to try after Socket; "" means 127.0.0.1:111.
	Addr string
}

// ErrNoRPCBind means that no rpcbind responds on this host. The error also contains the
// failure at each address.
var ErrNoRPCBind = errors.New("rpcbind: no rpcbind on this host")

// A TakenError reports that another program already holds the wanted
// registration.
type TakenError struct {
	Want   RPCB
	Holder RPCB // zero if rpcbind does not name one
}

// Error names the wanted registration and its holder.
func (e *TakenError) Error() string {
	m := fmt.Sprintf("rpcbind: program %d version %d on %s", e.Want.Prog, e.Want.Vers, e.Want.Netid)
	if e.Holder.Addr == "" {
		return m + " is rejected"
	}
	return fmt.Sprintf("%s is registered already, at %s by %s", m, e.Holder.Addr, e.Holder.Owner)
}

// Register registers services with this host's rpcbind, all of them or none. It replaces
// a registration at whose address nothing responds, as after a process was killed, and
// one at the service's own address, where the caller listens. The error is or wraps
// ErrNoRPCBind, a TakenError, or an error that oncrpc.Caller describes.
func (h Host) Register(ctx context.Context, services []Service) error {
	c, err := h.dialRPCBind(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for i, s := range services {
		if err := registerService(ctx, c, s); err != nil {
			return errors.Join(err, unregisterServices(ctx, c, services[:i]))
		}
	}
	return nil
}

// Unregister removes the registrations that Register made, except those that
// another program has replaced since.
func (h Host) Unregister(ctx context.Context, services []Service) error {
	c, err := h.dialRPCBind(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return unregisterServices(ctx, c, services)
}

// HasAll reports whether this host's rpcbind has the registrations that Register made: it loses
// them if it restarts.
func (h Host) HasAll(ctx context.Context, services []Service) (bool, error) {
	c, err := h.dialRPCBind(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	list, err := DumpRPCBs(ctx, c)
	if err != nil {
		return false, err
	}
	for _, s := range services {
		m := s.toRPCB(currentOwner())
		if !slices.ContainsFunc(list, func(have RPCB) bool {
			return have.Prog == m.Prog && have.Vers == m.Vers && have.Netid == m.Netid && have.Addr == m.Addr
		}) {
			return false, nil
		}
	}
	return true, nil
}

// dialRPCBind connects to rpcbind.
func (h Host) dialRPCBind(ctx context.Context) (*oncrpc.TCPClient, error) {
	if h.Socket == "" {
		h.Socket = "/run/rpcbind.sock"
	}
	if h.Addr == "" {
		h.Addr = net.JoinHostPort("127.0.0.1", fmt.Sprint(Port))
	}
	nc, err := new(net.Dialer).DialContext(ctx, "unix", h.Socket)
	if err == nil {
		return oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{}), nil
	}
	c, err2 := oncrpc.DialTCP(ctx, h.Addr, oncrpc.ClientConfig{})
	if err2 == nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w (%w; %w)", ErrNoRPCBind, err, err2)
}

// registerService registers one service.
func registerService(ctx context.Context, c oncrpc.Caller, s Service) error {
	want := s.toRPCB(currentOwner())
	done, err := setOrUnset(ctx, c, procSet, want)
	if done || err != nil {
		return err
	}
	holder, err := findRegistration(ctx, c, want)
	if err != nil {
		return err
	}
	if holder.Addr != "" && (holder.Addr == want.Addr || !isAnswering(ctx, holder)) {
		if _, err := setOrUnset(ctx, c, procUnset, want); err != nil {
			return err
		}
		if done, err := setOrUnset(ctx, c, procSet, want); done || err != nil {
			return err
		}
	}
	return &TakenError{want, holder}
}

// unregisterServices removes the registrations at the services' addresses.
func unregisterServices(ctx context.Context, c oncrpc.Caller, services []Service) error {
	var errs []error
	for _, s := range services {
		m := s.toRPCB(currentOwner())
		holder, err := findRegistration(ctx, c, m)
		if err == nil && holder.Addr == m.Addr {
			_, err = setOrUnset(ctx, c, procUnset, m)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// findRegistration returns the registration for m's program, version and netid, or the
// zero RPCB.
func findRegistration(ctx context.Context, c oncrpc.Caller, m RPCB) (RPCB, error) {
	list, err := DumpRPCBs(ctx, c)
	for _, have := range list {
		if have.Prog == m.Prog && have.Vers == m.Vers && have.Netid == m.Netid {
			return have, nil
		}
	}
	return RPCB{}, err
}

// isAnswering reports whether a process may be listening at the registered address. It
// returns false only if the host refuses a connection to the port, also for a port under
// RDMA, or rejects a datagram.
func isAnswering(ctx context.Context, m RPCB) bool {
	t, a := transportOf(m.Netid), netip.AddrPort{}
	if t != nil {
		a, _ = ParseUaddr(m.Addr)
	}
	if !a.IsValid() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	network := "tcp"
	if t.network == "udp" {
		network = "udp"
	}
	nc, err := new(net.Dialer).DialContext(ctx, network, a.String()) // 0.0.0.0 is this host
	if err == nil && network == "udp" {
		err = probeUDP(nc)
	}
	if nc != nil {
		nc.Close()
	}
	return !errors.Is(err, unix.ECONNREFUSED)
}

// probeUDP sends a datagram that is too short for a call, and returns the error that the
// host reports for it.
func probeUDP(nc net.Conn) error {
	if _, err := nc.Write([]byte{0}); err != nil {
		return err
	}
	if err := nc.SetReadDeadline(time.Now().Add(probeTimeout)); err != nil {
		return err
	}
	_, err := nc.Read(make([]byte, 1))
	return err
}
