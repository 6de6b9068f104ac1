SELECT absurd.create_queue('bench');
