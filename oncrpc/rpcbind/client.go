package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// ErrNotRegistered means that the program is not registered with the portmapper.
var ErrNotRegistered = errors.New("rpcbind: program not registered")

// Null calls the portmapper's NULL procedure (PMAPPROC_NULL).
// oncrpc.Caller describes the errors.
func Null(ctx context.Context, c oncrpc.Caller) error {
	x := oncrpc.Exchange{Prog: Program, Vers: PortmapVers, Proc: procNull}
	return callPortmapper(ctx, c, &x, func(*xdr.Reader) {})
}

// GetPort queries the portmapper at c for a program version's port over proto, which is
// TCP or UDP (PMAPPROC_GETPORT). The program may have only other versions. The error is
// or wraps ErrNotRegistered, an error that oncrpc.Caller describes, or a package xdr
// error if the results cannot be decoded.
func GetPort(ctx context.Context, c oncrpc.Caller, prog, vers, proto uint32) (uint16, error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: PortmapVers, Proc: procGetPort,
		Args:       Mapping{Prog: prog, Vers: vers, Prot: proto}.AppendTo(nil),
		MaxResults: 4,
	}
	var port uint32
	err := callPortmapper(ctx, c, &x, func(r *xdr.Reader) {
		port = r.Uint32()
		if port > math.MaxUint16 {
			r.Fail(fmt.Errorf("%w: port %d", xdr.ErrValue, port))
		}
	})
	switch {
	case err != nil:
		return 0, err
	case port == 0:
		return 0, fmt.Errorf("%w: program %d version %d, IP protocol %d", ErrNotRegistered, prog, vers, proto)
	}
	return uint16(port), nil
}

// GetAddr queries the rpcbind at c for a program version's port over the transport with a
// netid (RPCBPROC_GETADDR, version 3). Errors are as for GetPort.
func GetAddr(ctx context.Context, c oncrpc.Caller, prog, vers uint32, netid string) (uint16, error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: RPCBVers, Proc: procGetAddr,
		Args: RPCB{Prog: prog, Vers: vers, Netid: netid}.AppendTo(nil), MaxResults: 4 + maxString,
	}
	var addr string
	if err := callPortmapper(ctx, c, &x, func(r *xdr.Reader) { addr = r.String(maxString) }); err != nil {
		return 0, err
	}
	at, err := ParseUaddr(addr)
	if err != nil || at.Port() == 0 {
		return 0, fmt.Errorf("%w: program %d version %d, netid %s", ErrNotRegistered, prog, vers, netid)
	}
	return at.Port(), nil
}

// Dump lists the mappings of the portmapper at c (PMAPPROC_DUMP). Errors
// are as for GetPort.
func Dump(ctx context.Context, c oncrpc.Caller) ([]Mapping, error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: PortmapVers, Proc: procDump,
		MaxResults: listLen(maxMappings),
	}
	var list []Mapping
	err := callPortmapper(ctx, c, &x, func(r *xdr.Reader) { list = decodeList(r) })
	if err != nil {
		return nil, err
	}
	return list, nil
}

// DumpRPCBs lists the registrations of the rpcbind at c (RPCBPROC_DUMP, version 4).
// Errors are as for GetPort.
func DumpRPCBs(ctx context.Context, c oncrpc.Caller) ([]RPCB, error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: RPCBVers4, Proc: procDump,
		MaxResults: maxRPCBList,
	}
	var list []RPCB
	err := callPortmapper(ctx, c, &x, func(r *xdr.Reader) { list = decodeRPCBs(r) })
	if err != nil {
		return nil, err
	}
	return list, nil
}

// setOrUnset registers m with the rpcbind at c (RPCBPROC_SET) or, with procUnset, removes
// the registration of m's program, version and netid (RPCBPROC_UNSET). done is false if
// rpcbind rejected it.
func setOrUnset(ctx context.Context, c oncrpc.Caller, proc uint32, m RPCB) (done bool, err error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: RPCBVers4, Proc: proc,
		Args: m.AppendTo(nil), MaxResults: 4,
	}
	err = callPortmapper(ctx, c, &x, func(r *xdr.Reader) { done = r.Bool() })
	return done, err
}

// callPortmapper makes a call and decodes its results.
func callPortmapper(ctx context.Context, c oncrpc.Caller, x *oncrpc.Exchange, decode func(r *xdr.Reader)) error {
	if err := c.Call(ctx, x); err != nil {
		return fmt.Errorf("rpcbind: %w", err)
	}
	defer x.Release()
	decode(&x.Results)
	if err := x.Results.Done(); err != nil {
		return fmt.Errorf("rpcbind: the portmapper's results: %w", err)
	}
	return nil
}
