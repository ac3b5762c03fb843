// Package transact performs transactions in an sqlite3 database that several
// hosts write to. A transaction fails if its process has lost a lock, and may
// still be in the database: Run looks, and makes the transaction again if it is
// not. So each must be there once at the end.
package transact
