\echo Use "CREATE EXTENSION pgqrs" to load this file. \quit

