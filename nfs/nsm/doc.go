// Package nsm encodes and decodes the Network Status Monitor protocol, version 1
// (X/Open XNFS, Version 3W), with which a host learns that another has restarted,
// so that locks are released or reclaimed. It has the arguments and results, for
// servers and clients.
//
//	STAT       StatArgs     ▶ StatRes   can a host be monitored?
//	MON        MonArgs      ▶ StatRes   monitor a host
//	UNMON      UnmonArgs    ▶ State     no longer
//	UNMON_ALL  Asker        ▶ State     no host any longer, for one asker
//	SIMU_CRASH nothing      ▶ nothing   act as after a restart
//	NOTIFY     NotifyArgs   ▶ nothing   from a host that has restarted
//	(callback) CallbackArgs ▶ nothing   to the asker: a host has restarted
//
// The monitor calls back the procedure that the requester has named. For Linux's
// lock manager this is the lock manager program's procedure 16, which no
// standard lists.
//
// AppendTo appends a value's wire form and cannot fail. Decode reads the value
// from an xdr.Reader, whose Err or Done reports an error. Slices that Decode
// returns alias the Reader's input and are valid as long as that input. Names are
// bytes, not text.
//
// The package must not know files, locks or transports.
package nsm
