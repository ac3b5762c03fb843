package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// ErrNotRegistered means that the portmapper knows no port of the program.
var ErrNotRegistered = errors.New("rpcbind: program not registered")

// Null calls the portmapper's procedure without effect (PMAPPROC_NULL).
// oncrpc.Caller describes the errors.
func Null(ctx context.Context, c oncrpc.Caller) error {
	x := oncrpc.Exchange{Prog: Program, Vers: PortmapVers, Proc: procNull}
	return call(ctx, c, &x, func(*xdr.Reader) {})
}

// GetPort asks the portmapper behind c for the port on which a version of a
// program answers over proto, which is TCP or UDP (PMAPPROC_GETPORT). The
// program may have only other versions. The error is or wraps ErrNotRegistered,
// an error that oncrpc.Caller describes, or an error of package xdr if the
// results do not decode.
func GetPort(ctx context.Context, c oncrpc.Caller, prog, vers, proto uint32) (uint16, error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: PortmapVers, Proc: procGetPort,
		Args:       Mapping{Prog: prog, Vers: vers, Prot: proto}.AppendTo(nil),
		MaxResults: 4,
	}
	var port uint32
	err := call(ctx, c, &x, func(r *xdr.Reader) {
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

// GetAddr asks the rpcbind behind c for the port on which a version of a program answers
// over the transport of a netid (RPCBPROC_GETADDR of version 3). Errors are as for
// GetPort.
func GetAddr(ctx context.Context, c oncrpc.Caller, prog, vers uint32, netid string) (uint16, error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: RPCBVers, Proc: procGetAddr,
		Args: RPCB{Prog: prog, Vers: vers, Netid: netid}.AppendTo(nil), MaxResults: 4 + maxString,
	}
	var addr string
	if err := call(ctx, c, &x, func(r *xdr.Reader) { addr = r.String(maxString) }); err != nil {
		return 0, err
	}
	at, err := ParseUaddr(addr)
	if err != nil || at.Port() == 0 {
		return 0, fmt.Errorf("%w: program %d version %d, netid %s", ErrNotRegistered, prog, vers, netid)
	}
	return at.Port(), nil
}

// Dump lists the mappings of the portmapper behind c (PMAPPROC_DUMP). Errors
// are as for GetPort.
func Dump(ctx context.Context, c oncrpc.Caller) ([]Mapping, error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: PortmapVers, Proc: procDump,
		MaxResults: listLen(maxMappings),
	}
	var list []Mapping
	err := call(ctx, c, &x, func(r *xdr.Reader) { list = decodeList(r) })
	if err != nil {
		return nil, err
	}
	return list, nil
}

// DumpRPCBs lists the registrations of the rpcbind behind c, with RPCBPROC_DUMP
// of version 4. Errors are as for GetPort.
func DumpRPCBs(ctx context.Context, c oncrpc.Caller) ([]RPCB, error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: RPCBVers4, Proc: procDump,
		MaxResults: maxRPCBList,
	}
	var list []RPCB
	err := call(ctx, c, &x, func(r *xdr.Reader) { list = decodeRPCBs(r) })
	if err != nil {
		return nil, err
	}
	return list, nil
}

// set registers m with the rpcbind behind c (RPCBPROC_SET) or, with procUnset,
// removes the registration of m's program, version and netid (RPCBPROC_UNSET).
// done is false if rpcbind refused.
func set(ctx context.Context, c oncrpc.Caller, proc uint32, m RPCB) (done bool, err error) {
	x := oncrpc.Exchange{
		Prog: Program, Vers: RPCBVers4, Proc: proc,
		Args: m.AppendTo(nil), MaxResults: 4,
	}
	err = call(ctx, c, &x, func(r *xdr.Reader) { done = r.Bool() })
	return done, err
}

// call makes a call and decodes its results.
func call(ctx context.Context, c oncrpc.Caller, x *oncrpc.Exchange, decode func(r *xdr.Reader)) error {
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
