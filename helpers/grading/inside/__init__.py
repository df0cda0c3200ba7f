"""What runs inside the sandbox, and the wire to it. Inside, these modules stand by themselves."""
