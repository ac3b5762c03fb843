// Package gss is the vocabulary of the GSS-API (RFC 2743) that a security
// mechanism and its users share: a Context protects messages, an Acceptor makes
// contexts from the tokens of initiators, an Error says why one could not.
//
//	initiator's token ─▶ Acceptor ─▶ answer, Context, principal
//
//	                 ┌ MIC ───── VerifyMIC ┐
//	message ─▶ Context                     Context ─▶ message
//	                 └ Wrap ──────── Unwrap ┘
//
// It must not know any mechanism, nor RPC.
package gss
